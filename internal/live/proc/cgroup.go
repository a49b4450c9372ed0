package proc

import "strings"

// parseCgroup finds container, pod and Slurm job in /proc/PID/cgroup. Container runtimes put the container's id of 64 hex digits
// somewhere in the path (docker/ID, docker-ID.scope, cri-containerd-ID.scope, crio-ID.scope, libpod-ID.scope); the kubelet puts
// "pod" and the pod's uid before it, with underscores under systemd; Slurm makes folders "job_N".
func parseCgroup(text string) (container, pod, job string) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		for _, name := range strings.Split(parts[2], "/") {
			if id := hexRun(name); id != "" && container == "" {
				container = id[:12]
			}
			if uid := podUID(name); uid != "" && pod == "" {
				pod = uid
			}
			if n, ok := strings.CutPrefix(name, "job_"); ok && job == "" && allDigits(n) {
				job = n
			}
		}
	}
	return container, pod, job
}

// hexRun gives the run of exactly 64 hex digits in a name.
func hexRun(name string) string {
	begin := 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && strings.IndexByte("0123456789abcdef", name[i]) >= 0 {
			continue
		}
		if i-begin == 64 {
			return name[begin:i]
		}
		begin = i + 1
	}
	return ""
}

// podUID gives the uid of a name like "pod4b1f6c1e-5d0a-4a7f-9d53-0f1d2b7c8e90" or "kubepods-burstable-pod4b1f6c1e_5d0a_….slice".
func podUID(name string) string {
	const uidLength = 36
	i := strings.LastIndex(name, "pod")
	if i < 0 || (i > 0 && name[i-1] != '-') || len(name) < i+3+uidLength {
		return ""
	}
	uid := strings.ReplaceAll(name[i+3:i+3+uidLength], "_", "-")
	for k, r := range uid {
		dash := k == 8 || k == 13 || k == 18 || k == 23
		if dash != (r == '-') || (!dash && !strings.ContainsRune("0123456789abcdef", r)) {
			return ""
		}
	}
	return uid
}
