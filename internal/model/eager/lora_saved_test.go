package eager

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// PEFT 0.21 with task_type="SEQ_CLS": the head is copied, and the copy is trained.
func TestTheHeadOfAClassifierIsTrainedBesideAdapters(t *testing.T) {
	t.Parallel()
	m := NewModel(bare(), tensor.Float32)
	m.Child("layer").Linear("query", 8, 8, true)
	head := m.Child("classifier")
	head.Linear("dense", 8, 8, true)
	head.Linear("out_proj", 8, 2, true)
	if err := m.AttachLoRA(LoRA{Rank: 2, Targets: []string{"query"}, Saves: []string{"classifier", "score"}}); err != nil {
		t.Fatal(err)
	}
	all, trained := 0, 0
	for _, p := range m.Parameters() {
		all += p.Numel()
		if p.RequiresGrad() {
			trained += p.Numel()
		}
	}
	const layer, classifier, adapters = 72, 72 + 18, 2 * 2 * 8
	if all != layer+2*classifier+adapters || trained != classifier+adapters {
		t.Errorf("%d parameters, %d trained; want %d and %d", all, trained, layer+2*classifier+adapters, classifier+adapters)
	}
}
