package flow

import "strings"

// framework is what a training framework does with the classes people derive from its own.
type framework struct {
	bases []string // last parts of the names of its base classes
	// quiet methods are called by the framework while autograd is off.
	quiet []string
}

// frameworks lists the conventions that the analysis relies on, each read in the source it names:
//   - Lightning: the evaluation and prediction loops' run, with all hooks they call, is under inference_mode or no_grad
//     (https://github.com/Lightning-AI/pytorch-lightning/blob/2.6.0/src/lightning/pytorch/loops/utilities.py, _no_grad_context;
//     evaluation_loop.py and prediction_loop.py, run).
//   - Hugging Face Trainer: compute_metrics gets NumPy arrays, preprocess_logits_for_metrics runs after prediction_step, whose own
//     body opens no_grad: an override of prediction_step does not
//     (https://github.com/huggingface/transformers/blob/v5.17.0/src/transformers/trainer.py, prediction_step).
//   - torchmetrics: update runs under set_grad_enabled(False) unless forward asks otherwise
//     (https://github.com/Lightning-AI/torchmetrics/blob/v1.9.0/src/torchmetrics/metric.py, _wrap_update).
//   - Ignite: the step of create_supervised_evaluator opens no_grad
//     (https://github.com/pytorch/ignite/blob/00384fa46cfaf6132044f3aa834fc0274e92f0e7/ignite/engine/__init__.py, supervised_evaluation_step).
//   - fastai: validate and get_preds go through _do_epoch_validate, which opens no_grad around the events of validation; metrics detach what
//     they accumulate (https://github.com/fastai/fastai/blob/5bc369c27846819edb825253fbb7bec0213cc2cb/fastai/learner.py, AvgMetric, AvgLoss).
//   - mmengine: val_step, test_step and the evaluator's process are called by run_iter, which is decorated with no_grad
//     (https://github.com/open-mmlab/mmengine/blob/001950a28b5ec91d190a4201e77c22db9d467b36/mmengine/runner/loops.py, ValLoop, TestLoop).
//   - fairseq: Trainer.valid_step opens no_grad around task.valid_step; criterions' reduce_metrics gets numbers
//     (https://github.com/facebookresearch/fairseq/blob/4a67371a46db2629d5eecf486600a4a8c79f6d56/fairseq/trainer.py, valid_step).
//   - Keras 3 on torch: make_test_function and make_predict_function call test_step and predict_step under no_grad
//     (https://github.com/keras-team/keras/blob/02b3d3d3abfc5eb27234f2c2f3c35ca8e26f31f9/keras/src/backend/torch/trainer.py).
var frameworks = []framework{
	{
		bases: []string{"LightningModule", "Callback", "LightningDataModule", "LightningCLI"},
		quiet: []string{
			"validation_step", "test_step", "predict_step", "validation_epoch_end", "test_epoch_end", "validation_step_end", "test_step_end",
			"on_validation_epoch_end", "on_test_epoch_end", "on_predict_epoch_end", "on_validation_epoch_start", "on_test_epoch_start", "on_validation_start",
			"on_validation_end", "on_test_end", "on_validation_batch_end", "on_test_batch_end", "on_predict_batch_end", "on_validation_batch_start",
			"after_validate", "on_predict_end",
		},
	},
	{bases: []string{"Trainer", "Seq2SeqTrainer", "SFTTrainer", "DPOTrainer", "TrainerCallback"}, quiet: []string{"compute_metrics", "preprocess_logits_for_metrics"}},
	{bases: []string{"Metric", "MetricCollection", "AvgMetric", "AccumMetric", "BaseMetric"}, quiet: []string{"update", "compute", "accumulate", "process", "compute_metrics", "evaluate"}},
	{bases: []string{"BaseModel", "BaseDetector", "BaseSegmentor", "BaseDataPreprocessor", "BaseTTAModel"}, quiet: []string{"val_step", "test_step", "predict", "predict_by_feat"}},
	{bases: []string{"FairseqTask", "LegacyFairseqTask", "TranslationTask", "FairseqCriterion", "LegacyFairseqCriterion"}, quiet: []string{"valid_step", "reduce_metrics", "aggregate_logging_outputs", "inference_step"}},
	{bases: []string{"Model", "KerasModel"}, quiet: []string{"test_step", "predict_step"}},
}

// hooks are names that only frameworks give to what they call while autograd is off, whatever the class derives from.
var hooks = map[string]bool{
	"validation_step": true, "validation_epoch_end": true, "test_epoch_end": true, "on_validation_epoch_end": true, "on_test_epoch_end": true,
	"validation_step_end": true, "compute_metrics": true, "preprocess_logits_for_metrics": true, "on_validation_batch_end": true,
	"on_predict_batch_end": true, "on_test_batch_end": true,
}

// Quiet tells whether a framework calls the function while autograd is off.
func (fn *Function) Quiet() bool {
	if fn == nil {
		return false
	}
	if fn.Class == nil {
		return fn.Outer == nil && anyOf(fn.Name, "compute_metrics", "preprocess_logits_for_metrics")
	}
	if hooks[fn.Name] {
		return true
	}
	for _, f := range frameworks {
		if anyOf(fn.Name, f.quiet...) && fn.Class.Derives(f.bases...) {
			return true
		}
	}
	return false
}

// Derives tells whether a class derives from one that a framework offers under one of these names.
func (c *Class) Derives(names ...string) bool {
	for _, b := range c.Foreign {
		last := Last(b)
		for _, n := range names {
			if last == n || len(n) > 6 && strings.HasSuffix(last, n) {
				return true
			}
		}
	}
	return false
}
