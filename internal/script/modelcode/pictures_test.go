package modelcode

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

func pictureReader(t *testing.T) *Reader {
	return &Reader{Python: probetest.Python(t), Cache: t.TempDir(), Env: os.Environ()}
}

// given are the shapes of a graph's inputs for a batch of 2 and samples of 16 tokens, with 8 to write.
func given(t *testing.T, g *exported.Graph) (out [][]int) {
	b, err := g.Bind(func(s exported.Symbol) (int64, error) {
		return map[string]int64{"batch": 2, "seq": 16, "target_seq": 8}[s.Name], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range g.Inputs {
		if g.Values[v].Role == exported.UserInput {
			out = append(out, b.Dims(g.Values[v].Sizes))
		}
	}
	return out
}

func TestPicturesComeAsProcessorsGiveThem(t *testing.T) {
	t.Parallel()
	r := pictureReader(t)
	small := `"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":128`
	for name, c := range map[string]struct {
		config string
		first  []int // the first input
		inputs int
	}{
		"patches with their rows and columns": {`{"model_type":"kimi_k25_vision",` + small + `,"patch_size":14}`, []int{512, 3, 14, 14}, 2},
		"frames as samples of their own":      {`{"model_type":"xclip_vision_model",` + small + `,"mit_hidden_size":64,"image_size":32,"patch_size":16,"num_frames":4}`, []int{8, 3, 32, 32}, 1},
		"patches that a pool divides":         {`{"model_type":"gemma4_vision",` + small + `,"head_dim":16,"num_key_value_heads":4,"patch_size":16,"pooling_kernel_size":3}`, []int{2, 144, 768}, 2},
		"a strip of patches":                  {`{"model_type":"minicpmv4_6_vision",` + small + `,"image_size":64,"patch_size":16,"insert_layer_id":0}`, []int{1, 3, 16, 2 * 16 * 16}, 2},
		"maps of another part":                {`{"model_type":"sam3_mask_decoder","hidden_size":32,"num_attention_heads":4}`, []int{2, 200, 32}, 6},
		"images by another name":              {`{"model_type":"florence_vision","embed_dim":[32,64],"depths":[1,1],"num_heads":[2,4],"num_groups":[2,4],"patch_size":[7,3],"patch_stride":[4,2],"patch_padding":[3,1],"patch_prenorm":[false,true]}`, []int{2, 3, 224, 224}, 1},
	} {
		g, err := r.Graph(job.Job{Batch: 2, Seq: 16}, []byte(c.config))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := given(t, g); len(got) != c.inputs || !slices.Equal(got[0], c.first) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestModelsWithoutATrainingStepSayWhatToPredict(t *testing.T) {
	t.Parallel()
	r := pictureReader(t)
	for kind, why := range map[string]string{
		"chameleon_vqgan": "ChameleonVQVAE has no forward pass of its own: its code is called by parts from the model around it; predict chameleon, which it is a part of",
		"sam2_video":      "Sam2VideoModel is for inference alone: its forward pass runs under torch.inference_mode; predict sam2, its model of single images, to train it",
		"idefics_vision":  "idefics_vision is no model by itself: transformers has only its configuration; predict idefics, which it is a part of",
		"layoutxlm":       "layoutxlm is no model by itself: transformers has only its configuration; its checkpoints are of model_type layoutlmv2: predict that",
	} {
		if _, err := r.Graph(job.Job{Batch: 2, Seq: 16}, []byte(`{"model_type":"`+kind+`"}`)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestCodeThatTakesOneSampleAtATimeIsReadWithOne(t *testing.T) {
	t.Parallel()
	r := pictureReader(t)
	config := []byte(`{"model_type":"tvp","hidden_size":32,"intermediate_size":64,"num_hidden_layers":1,"num_attention_heads":2,"num_frames":2,"max_img_size":64,"visual_prompt_size":16,"vocab_size":100,
		"backbone_config":{"model_type":"resnet","embedding_size":16,"hidden_sizes":[16,32],"depths":[1,1],"out_features":["stage2"]}}`)
	if _, err := r.Graph(job.Job{Batch: 2, Seq: 16}, config); err == nil || !strings.Contains(err.Error(), "the code of TvpModel takes one sample at a time; set --batch 1") {
		t.Errorf("two samples: %v", err)
	}
	g, err := r.Graph(job.Job{Batch: 1, Seq: 16}, config)
	if err != nil {
		t.Fatal(err)
	}
	if got := given(t, g); !slices.ContainsFunc(got, func(s []int) bool { return slices.Equal(s, []int{1, 2, 3, 64, 64}) }) {
		t.Errorf("one sample: %v", got)
	}
}

func TestALoopThatTheModelEndsRunsAsLongAsItMay(t *testing.T) {
	t.Parallel()
	g, err := pictureReader(t).Graph(job.Job{Batch: 2}, []byte(`{"model_type":"slanet","hidden_size":16,"out_channels":2,"max_text_length":5,"post_conv_out_channels":16}`))
	if err != nil {
		t.Fatal(err)
	}
	cells := 0
	for _, n := range g.Nodes {
		if n.Target == "aten.gru_cell.default" {
			cells++
		}
	}
	if cells != 6 {
		t.Errorf("%d steps of at most 6", cells)
	}
	if note := "a loop that the model ends by itself runs as long as its configuration allows: samples that end sooner need less"; !slices.Contains(g.Trace.Notes, note) {
		t.Errorf("notes %q", g.Trace.Notes)
	}
}

// SuperPoint gives the places of its keypoints first, which no gradient reaches, and its code has no loss.
func TestTheMeanIsThatOfAnOutputWithAGradient(t *testing.T) {
	t.Parallel()
	config := []byte(`{"model_type":"superpoint","encoder_hidden_sizes":[8,8,16,16],"decoder_hidden_size":16,"descriptor_decoder_dim":16}`)
	g, err := pictureReader(t).Graph(job.Job{Batch: 2}, config)
	if err != nil {
		t.Fatal(err)
	}
	for _, note := range []string{
		"SuperPointForKeypointDetection was run without targets: the step trains the mean of its output (scores)",
		`SuperPointForKeypointDetection has no loss of its own: its code says "SuperPoint does not support training for now."`,
		"sizes that follow from the model's own results, such as how many keypoints it finds, were drawn at random: with trained weights they differ",
	} {
		if !slices.Contains(g.Trace.Notes, note) {
			t.Errorf("%q is not among the notes %q", note, g.Trace.Notes)
		}
	}
}

// An image of 56 pixels is 16 patches, four of which become one token.
func TestAnImageBesideTextIsCutIntoPatches(t *testing.T) {
	t.Parallel()
	small := `"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":128`
	config := `{"model_type":"paddleocr_vl","text_config":{` + small + `,"num_key_value_heads":4,"head_dim":16,"rope_parameters":{"rope_type":"default","rope_theta":10000.0,"mrope_section":[2,3,3]}},"vision_config":{` + small + `,"patch_size":14}}`
	g, err := pictureReader(t).Graph(job.Job{Batch: 2, Seq: 16, Image: 56}, []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	if got := given(t, g); !slices.ContainsFunc(got, func(s []int) bool { return slices.Equal(s, []int{32, 3, 14, 14}) }) || !slices.Contains(g.Trace.Notes, "every sample has one image, which takes 4 of its tokens") {
		t.Errorf("%v, notes %q", got, g.Trace.Notes)
	}
}
