package flow

import "strings"

// framework is what a training framework does with the classes people derive from its own.
type framework struct {
	bases []string // last parts of the names of its base classes
	// quiet methods are called by the framework while autograd is off.
	quiet []string
}

// frameworks lists the conventions that the analysis relies on. Sources, as of November 2026:
//   - Lightning: the evaluation and prediction loops run under inference_mode or no_grad
//     (https://github.com/Lightning-AI/pytorch-lightning/blob/2.5.0/src/lightning/pytorch/loops/utilities.py, _no_grad_context).
//   - Hugging Face Trainer: compute_metrics gets NumPy arrays, preprocess_logits_for_metrics runs after prediction_step, whose own
//     body opens no_grad: an override of prediction_step does not
//     (https://github.com/huggingface/transformers/blob/v4.57.0/src/transformers/trainer.py, prediction_step).
//   - torchmetrics: update runs under set_grad_enabled(False) unless asked otherwise (metric.py, _wrap_update).
//   - Ignite: create_supervised_evaluator opens no_grad; Metric.update and compute are called by it.
//   - fastai: Learner._do_epoch_validate opens no_grad; Callback.after_validate and the metrics' accumulate run inside.
//   - mmengine: val_step and test_step are called by loops whose run_iter is decorated with no_grad (runner/loops.py).
//   - fairseq: Trainer.valid_step opens no_grad around task.valid_step; criterions' reduce_metrics gets numbers.
//   - Keras 3 on torch: TorchTrainer.test_step and predict_step run under no_grad (backend/torch/trainer.py).
var frameworks = []framework{
	{
		bases: []string{"LightningModule", "Callback", "LightningDataModule", "LightningCLI"},
		quiet: []string{
			"validation_step", "test_step", "predict_step", "validation_epoch_end", "test_epoch_end", "validation_step_end", "test_step_end",
			"on_validation_epoch_end", "on_test_epoch_end", "on_predict_epoch_end", "on_validation_epoch_start", "on_test_epoch_start", "on_validation_start",
			"on_validation_end", "on_test_end", "on_validation_batch_end", "on_test_batch_end", "on_predict_batch_end", "on_validation_batch_start",
			"after_validate", "after_fit", "on_predict_end",
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
