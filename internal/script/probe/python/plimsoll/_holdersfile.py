"""The holders file beside a recording: JSON of schema plimsoll.holders/1, compressed by zlib with a dictionary (RFC 1950, FDICT).

What such files have in common, the schema's keys and PyTorch's own frames, is in the dictionary and not in the file: beside a recording of 10 KB it would else take
more than a twentieth. Never change the dictionary: files written with it could not be read any more. internal/evidence/holders/dictionary.txt is its copy.
"""
import json
import zlib

from . import _files

ENDING = ".holders.json.zlib"

DICTIONARY = b""""kind":"objects that no name reaches (): a reference cycle not yet collected, or kept by C++","problem":"","stopped":"objects"
"when":"growth","when":"demand","when":"peak","frame":"exception","in":{"file":"the notebook's output history"},"in":{"file":"the notebook's last outputs"}
"in":{"file":"the last uncaught exception"},"in":{"file":"the notebook"},"name":"sys.last_value","name":"Out[*]"
"type":"deque","type":"set","type":"Parameter","type":"DataParallel","type":"DistributedDataParallel","type":"OptimizedModule","type":"function","type":"generator"
{"file":"<frozen runpy>","line":88,"function":"_run_code"},{"file":"/usr/lib/python3.11/threading.py","line":,"function":"run"},"function":"_bootstrap_inner"}
{"file":"/usr/lib/python3.10/copy.py","line":,"function":"_deepcopy_dict"},"function":"_reconstruct"},"function":"deepcopy"}
/transformers/trainer.py","line":,"function":"_inner_training_loop"},"function":"training_step"},"function":"compute_loss"},"function":"evaluation_loop"}
/transformers/modeling_layers.py","line":,"function":"__call__"},/transformers/utils/generic.py","line":,"function":"wrapper"},/transformers/models//modeling_.py
/accelerate/accelerator.py","line":,"function":"backward"},/accelerate/utils/operations.py","line":,"function":"convert_to_fp32"}
/torch/nn/modules/conv.py","line":,"function":"_conv_forward"},/torch/nn/modules/activation.py/torch/nn/modules/transformer.py/torch/nn/modules/normalization.py
/torch/nn/modules/batchnorm.py/torch/nn/modules/loss.py/torch/nn/modules/sparse.py/torch/nn/modules/dropout.py/torch/nn/parallel/distributed.py
/torch/utils/checkpoint.py","line":,"function":"checkpoint"},/torch/utils/_contextlib.py","line":,"function":"decorate_context"},/torch/_compile.py
/torch/optim/sgd.py/torch/optim/adam.py","line":,"function":"_multi_tensor_adam"},"function":"_init_group"},"function":"adam"},/torch/optim/adamw.py
/torch/optim/optimizer.py","line":,"function":"_use_grad"},"function":"wrapper"},"function":"step"}
/torch/_tensor.py","line":,"function":"backward"},/torch/autograd/__init__.py","line":,"function":"backward"}
/torch/autograd/graph.py","line":,"function":"_engine_run_backward"}
"op":"ConvolutionBackward0","op":"CudnnBatchNormBackward0","op":"NativeBatchNormBackward0","op":"NativeLayerNormBackward0","op":"NativeDropoutBackward0"
"op":"ScaledDotProductFlashAttentionBackward0","op":"ScaledDotProductEfficientAttentionBackward0","op":"LogSoftmaxBackward0","op":"SoftmaxBackward0"
"op":"NllLossBackward0","op":"EmbeddingBackward0","op":"SigmoidBackward0","op":"TanhBackward0","op":"SiluBackward0","op":"BmmBackward0","op":"MmBackward0"
"op":"PowBackward0","op":"MulBackward0","op":"ReluBackward0","op":"GeluBackward0","op":"AddmmBackward0"
"kind":"max_exp_avg_sq","kind":"momentum_buffer","kind":"step","layer1.0.","layers.0.","blocks.0.","h.0.self_attn.q_proj.weight","k_proj.weight","v_proj.weight"
"o_proj.weight","mlp.gate_proj.weight","mlp.up_proj.weight","mlp.down_proj.weight","self_attn.in_proj_weight","embed.weight","head.weight"
"bn1.running_mean","running_var","conv1.weight","linear1.weight","norm1.weight","norm1.bias","norm2.weight","norm2.bias","fc1.weight","fc1.bias","fc2.weight"
"0.weight","0.bias","1.weight","1.bias","2.weight","2.bias","2.up.bias","2.down.weight"]
/usr/local/lib/python3.12/dist-packages/opt/venv/.venv/lib/python3.12/site-packages/torch/nn/functional.py","line":,"function":"
/torch/nn/modules/linear.py","line":134,"function":"forward"},{"file":"/torch/nn/modules/container.py","line":253,"function":"forward"}
,{"file":"/lib/python3.12/site-packages/torch/nn/modules/module.py","line":1790,"function":"_call_impl"}
,{"file":"/lib/python3.12/site-packages/torch/nn/modules/module.py","line":1779,"function":"_wrapped_call_impl"}
,{"file":"/home/train.py","line":,"function":"forward"},"function":"training_step"},"function":"train"},"function":"step"},"function":"main"},{"file":"
"name":"args[0]","in":{"file":"/lib/python3.12/site-packages/torch/nn/modules/module.py","line":1779,"function":"Module._wrapped_call_impl"},"type":"tuple"
"type":"dict","type":"Linear","type":"Module","name":"self.model","name":"outputs[*]","name":"losses[*]","name":"logits","name":"loss","name":"out","name":"batch"
"also":[{"name":"the graph of loss","in":{"file":"/,"first":"","last":"[1]"},"name":"","addresses":[],"sizes":[
{"device":0,"role":"temporary","bytes":{"device":0,"role":"library","bytes":{"device":0,"role":"buffer","bytes":
{"device":0,"role":"gradient","bytes":,"kind":"exp_avg","names":["kind":"exp_avg_sq","names":["
{"device":0,"role":"optimizer","bytes":,"count":1,"name":"model","in":{"file":"/,"function":"<module>"},"type":"Sequential","names":["weight","bias"],"addresses":[
1024,512,4096,16384,65536,1048576,2097152,4194304,8388608,16777216,20971520,33554432,67108864,134217728,268435456],"sizes":[512]}
,{"device":0,"role":"saved","bytes":,"count":1,"name":"x","in":{"file":"/,"function":"<module>"},"type":"Tensor","op":"","module":"","names":["","addresses":[13
],"sizes":[]},{"device":0,"role":"variable","bytes":,"count":1,"name":"x","in":{"file":"/","line":1,"function":"main"},"type":"list","first":"[0]","last":"[1]"
,"addresses":[139],"sizes":[2097152]}],"walk":{"seconds":2.0,"objects":3,"tensors":,"nodes":0,"complete":false,"stopped":"time"}}
],"walk":{"seconds":0.9,"objects":216,"tensors":1,"nodes":0,"complete":true,"stopped":""}}
"rank":0,"step":1,"phase":"load","time":1795,"phase":"optimizer","phase":"backward","time":1794
{"schema":"plimsoll.holders/1","when":"oom","pid":,"rank":0,"step":0,"phase":"forward","time":1794,"running":[{"file":"/home//","line":1,"function":"<module>"}]
,"devices":[{"device":0,"allocated":2,"named":1}],"holders":[{"device":0,"role":"input","bytes":,"count":1,"name":"x","in":{"file":"/","line":1,"function":"main"}
,"type":"Tensor","addresses":[140],"sizes":[]},{"device":0,"role":"parameter","bytes":
""".replace(b"\n", b"")


def write(path, found):
    """Write what _holders.look() said; returns whether it was written."""
    return _files.write_with(path, lambda f: f.write(pack(found)))


def pack(found):
    data = json.dumps(found, default=str, separators=(",", ":")).encode()
    press = zlib.compressobj(6, zdict=DICTIONARY)
    return press.compress(data) + press.flush()


def read(path):
    """What a holders file says, as a dict; also of one that an older version compressed with gzip."""
    with open(path, "rb") as f:
        data = f.read()
    if data[:2] == b"\x1f\x8b":
        import gzip

        return json.loads(gzip.decompress(data))
    return json.loads(zlib.decompressobj(zdict=DICTIONARY).decompress(data))
