"""An example of an admission webhook that refuses training jobs that do not fit: `python admission.py CERT KEY [PORT]`. Standard library only.

A Job names its description and its card in annotations:

    plimsoll.dev/job: '{"source": "hf", "config": {…}, "batch": 4, "seq": 2048, …}'     as plimsoll predict --job reads it; without file names
    plimsoll.dev/gpu: a100-40g

The exit code of `plimsoll predict` decides: 3 refuses with the first line it says, 0 admits. What cannot be predicted is admitted with a warning: memory is not a reason
to refuse what is not known. Jobs without the annotations are admitted.
"""
import http.server
import json
import ssl
import subprocess
import sys

SECONDS = 8  # the API server waits for ten
MOST = 1 << 20  # bytes of a request


def predict(job, gpu):
    """Whether to admit a job, and what to say."""
    command = ["plimsoll", "predict", "--job=-"] + ([f"--gpu={gpu}"] if gpu else [])
    description = json.loads(job)
    if not isinstance(description, dict) or description.get("config_file") or description.get("graph"):
        return True, "plimsoll.dev/job must hold the configuration itself, not name a file"
    done = subprocess.run(command, input=job, capture_output=True, text=True, timeout=SECONDS)
    first = next((line for line in done.stdout.splitlines() if line.strip()), "")
    if done.returncode == 3:
        return False, first or "the job does not fit"
    return True, "" if done.returncode == 0 else done.stderr.strip()[:500]


def review(request):
    """The answer to an AdmissionReview (kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers)."""
    asked = request["request"]
    notes = asked["object"].get("metadata", {}).get("annotations") or {}
    allowed, text = True, ""
    if "plimsoll.dev/job" in notes:
        try:
            allowed, text = predict(notes["plimsoll.dev/job"], notes.get("plimsoll.dev/gpu", ""))
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            text = f"the job could not be predicted: {problem}"
    response = {"uid": asked["uid"], "allowed": allowed}
    if not allowed:
        response["status"] = {"code": 403, "message": text}
    elif text:
        response["warnings"] = [text]
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        size = int(self.headers.get("Content-Length") or 0)
        if not 0 < size <= MOST:
            return self.send_error(413)
        try:
            answer = json.dumps(review(json.loads(self.rfile.read(size)))).encode()
        except (ValueError, KeyError, TypeError, AttributeError):
            return self.send_error(400)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(answer)


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("", int(sys.argv[3]) if len(sys.argv) > 3 else 8443), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
