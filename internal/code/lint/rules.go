package lint

// Rule is one thing to look for.
type Rule struct {
	ID, Name string
	Severity Severity // the worst it reports
	// Quiet rules are reported only when asked for: they explain a shortage rather than name a mistake.
	Quiet   bool
	word    string // a file without it cannot break the rule; empty: look at every file
	Summary string
	check   func(*pass)
}

// Rules lists every rule in order.
func Rules() []Rule { return append([]Rule(nil), rules...) }

// RuleByID finds a rule by id or name.
func RuleByID(id string) (Rule, bool) {
	for _, list := range [][]Rule{rules, about} {
		for _, r := range list {
			if r.ID == id || r.Name == id {
				return r, true
			}
		}
	}
	return Rule{}, false
}

var rules = []Rule{
	{"LM001", "graph-retained-across-iterations", Error, false, "", "a value with its graph is added up or collected over iterations", graphRetained},
	{"LM002", "outputs-collected-on-gpu", Warning, false, "", "outputs of every batch are collected on the GPU", outputsCollected},
	{"LM003", "eval-without-no-grad", Error, false, "", "evaluation records a graph", evalWithoutNoGrad},
	{"LM004", "hidden-state-not-detached", Error, false, "backward", "a recurrent state carries its graph into the next batch", hiddenState},
	{"LM005", "retain-graph-in-loop", Warning, false, "retain_graph", "retain_graph=True though nothing uses the graph again", retainGraph},
	{"LM006", "create-graph-backward", Warning, false, "create_graph", "backward(create_graph=True) makes a reference cycle", createGraph},
	{"LM007", "cuda-in-dataset", Error, false, "", "samples are moved to the GPU inside the dataset", cudaInDataset},
	{"LM008", "hook-stores-tensors", Warning, false, "", "a hook collects tensors without detaching them", hookStores},
	{"LM009", "tensors-in-logging", Note, false, "", "tensors instead of numbers go to a logger or stay in a metric", tensorsLogged},
	{"LM010", "zero-grad-inside-accumulation", Error, false, "zero_grad", "gradients are cleared in every micro-batch of an accumulation", zeroInsideAccumulation},
	{"LM011", "accumulation-loss-not-scaled", Warning, false, "", "an accumulated loss is not divided by the number of micro-batches", lossNotScaled},
	{"LM012", "accumulation-remainder-dropped", Note, false, "backward", "the last batches of an epoch are never stepped", remainderDropped},
	{"LM013", "accumulation-index-stride", Error, false, "backward", "slices of an index-based accumulation overlap", indexStride},
	{"LM014", "tensor-attribute-cache", Note, true, "forward", "forward stores an activation on self", attributeCache},
	{"LM015", "long-lived-temporaries", Note, true, "backward", "a training batch's tensors live through evaluation", longLived},
	{"LM016", "float64", Warning, false, "", "double precision where single would do", float64Use},
	{"LM017", "missing-zero-grad", Warning, false, "step", "a training loop never clears its gradients (wrong training, no memory)", missingZeroGrad},
	{"LM018", "zero-grad-set-to-none-false", Note, false, "set_to_none", "gradients are kept instead of freed", setToNone},
	{"LM019", "optimizer-before-wrap", Error, false, "parameters", "the optimizer is made before the model is sharded or moved", optimizerBeforeWrap},
	{"LM020", "dataparallel", Warning, false, "DataParallel", "DataParallel loads the first GPU", dataParallel},
	{"LM021", "adam-foreach-peak", Note, true, "Adam", "Adam's foreach step needs a copy of the parameters", foreachPeak},
	{"LM022", "amp-misuse", Error, false, "scale", "GradScaler used out of order", ampMisuse},
	{"LM023", "oom-handler", Warning, false, "except", "out of memory is handled where it cannot help, or mistaken for something else", oomHandler},
	{"LM024", "load-without-map-location", Warning, false, "load", "a checkpoint is loaded onto the GPU it came from", loadWithoutMap},
	{"LM025", "deprecated-amp", Note, false, "amp", "torch.cuda.amp is deprecated", deprecatedAMP},
	{"LM026", "tensor-of-tensor", Note, false, "tensor", "torch.tensor of a tensor", tensorOfTensor},
	{"LM027", "checkpoint-object-kept", Note, false, "backward", "a loaded checkpoint stays referenced during training", checkpointKept},
	{"LM028", "fsdp-full-state-dict-on-gpu", Warning, false, "", "a full state dict is gathered on every GPU", fullStateDict},
	{"LM029", "no-sync-with-fsdp", Warning, false, "sync", "FSDP without synchronising keeps unsharded gradients", noSyncFSDP},
	{"LM030", "shape-mismatch", Error, false, "Linear", "a Linear layer's size contradicts the convolutions before it", shapeMismatch},
	{"LM031", "backward-without-requires-grad", Error, false, "backward", "backward on tensors none of which requires a gradient", backwardOnLeaves},
	{"LM032", "ddp-duplicate-gradients", Note, false, "arallel", "DDP keeps a second copy of the gradients", ddpBuckets},
	{"LM033", "dataloader-host-memory", Note, false, "DataLoader", "the DataLoader multiplies host memory", loaderHostMemory},
	{"LM034", "logits-upcast", Warning, false, "", "vocabulary-sized logits are copied or kept", logitsUpcast},
	{"LM035", "broadcasting-blowup", Warning, false, "", "a loss between (N, 1) and (N,) makes N × N", broadcastBlowup},
	{"LM036", "checkpointing-ineffective", Warning, false, "checkpoint", "activation checkpointing that does not save what it should", checkpointingIneffective},
	{"LM037", "cudnn-benchmark-variable-shapes", Note, false, "benchmark", "cudnn.benchmark with inputs of changing shape", cudnnBenchmark},
	{"LM038", "deepcopy-of-model", Note, false, "deepcopy", "a second model on the GPU", deepCopy},
	{"LM039", "empty-cache-in-loop", Note, false, "empty_cache", "empty_cache() in every iteration", emptyCacheInLoop},
	{"LM040", "alloc-conf-conflict", Warning, false, "ALLOC_CONF", "allocator settings that conflict or come too late", allocConf},
	{"LM041", "softmax-before-cross-entropy", Warning, false, "oftmax", "CrossEntropyLoss gets probabilities instead of logits", softmaxBeforeLoss},
	{"LM042", "train-mode-not-restored", Warning, false, "eval", "a model goes on training in eval mode", trainNotRestored},
	{"LM043", "gpu-sync-in-training-loop", Note, true, "backward", "every batch waits for the GPU", gpuSync},
	{"LM044", "dense-embedding-gradient", Note, false, "Embedding", "a large embedding has a dense gradient", denseEmbedding},
	{"LM045", "optimizer-over-frozen-parameters", Note, false, "requires_grad", "the optimizer is given parameters that are frozen", frozenInOptimizer},
	{"LM046", "trainer-evaluation-records-graph", Error, false, "prediction_step", "a Trainer's prediction_step records a graph", trainerEvaluation},
}
