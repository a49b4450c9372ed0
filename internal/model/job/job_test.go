package job

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/plimsoll/plimsoll/internal/torch"
)

const minimal = `{"source":"graph","graph":"g.pt2","batch":4`

func TestDefaultsAreFilledIn(t *testing.T) {
	t.Parallel()
	j, err := Parse([]byte(minimal + `,"measured":{"peak":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	if j.ParamDType != "fp32" || j.Optimizer != "adamw" || j.Accumulate != 1 || j.Loop != "function" || j.Precision() != "fp32" {
		t.Errorf("defaults: %+v", j)
	}
	if len(j.Ignored) != 1 || j.Ignored[0] != "measured" {
		t.Errorf("ignored %v", j.Ignored)
	}
}

func TestWhatNoScriptCouldMeanIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{`:                                      "JSON",
		`{"batch":1}`:                            "no model",
		`{"graph":"g","batch":-1}`:               "negative",
		`{"graph":"g"}`:                          "--batch",
		`{"graph":"g","batch":99999999}`:         "too large",
		minimal + `,"optimizer":"adamv"}`:        "did you mean adam",
		minimal + `,"optimiser":"adam"}`:         "did you mean optimizer",
		minimal + `,"config":{"model_type":""}}`: "both a config and a graph",
		minimal + `,"param_dtype":"bf16","autocast":"fp16"}`:                   "autocast",
		minimal + `,"attn":"eager"}`:                                           "attention",
		minimal + `,"freeze":[""]}`:                                            "empty prefix",
		minimal + `,"input":[0]}`:                                              "at least 1",
		minimal + `,"input":[1099511627776,1099511627776]}`:                    "too large",
		minimal + `,"batch":"four"}`:                                           "job",
		`{"config":{},"batch":1,"task":"causal-lm"}`:                           "--seq",
		`{"config":{},"batch":1,"task":"image-cls","seq":5}`:                   "no seq",
		`{"config":{},"batch":1,"seq":5,"loss":"cross-entropy"}`:               "for graphs",
		`{"config":{},"batch":1,"seq":5,"task":"causal-lm","target_seq":7}`:    "no target_seq",
		`{"config":{},"batch":1,"seq":5,"tf32":true,"param_dtype":"bf16"}`:     "tf32",
		`{"config":{},"config_file":"x","batch":1,"seq":5,"task":"causal-lm"}`: "both config and",
		`{"source":"onnx","config":{},"batch":1}`:                              "source",
		`{"source":"graph","config":{},"batch":1}`:                             "needs graph",
	} {
		_, err := Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}

func TestPrecisionWordsGoBothWays(t *testing.T) {
	t.Parallel()
	for _, w := range torch.Precisions() {
		var j Job
		p, err := torch.ParsePrecision(w)
		if j.SetPrecision(p); err != nil || string(j.Precision()) != w {
			t.Errorf("%s becomes %s (%v)", w, j.Precision(), err)
		}
	}
	if _, err := torch.ParsePrecision("fb16"); err == nil || !strings.Contains(err.Error(), "bf16") {
		t.Errorf("fb16: %v", err)
	}
}

func TestLinesAreReadInOrderAndBrokenOnesNamed(t *testing.T) {
	t.Parallel()
	text := "{\n" + minimal + `,"id":"a"}` + "\n\n" + `"` + strings.Repeat("x", maxLine) + "\"\n" + minimal + `,"id":"b"}`
	var got []string
	for l := range Lines(strings.NewReader(text)) {
		if (l.Err != nil) != (l.Job.ID == "") || l.Err != nil && !strings.HasPrefix(l.Err.Error(), fmt.Sprintf("line %d: ", l.Number)) {
			t.Errorf("%+v", l)
		}
		got = append(got, fmt.Sprint(l.Number, l.Job.ID))
	}
	if strings.Join(got, " ") != "1 2a 4 5b" {
		t.Errorf("%q", got)
	}
}

func TestAFileThatEndsInAnErrorGivesItsLinesFirst(t *testing.T) {
	t.Parallel()
	var got []Line
	for l := range Lines(io.MultiReader(strings.NewReader(minimal+"}\n"), iotest.ErrReader(errors.New("disk")))) {
		got = append(got, l)
	}
	if len(got) != 2 || got[0].Err != nil || got[1].Err == nil {
		t.Errorf("%+v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal + `}`))
	f.Add([]byte(`{"config":{"model_type":"gpt2"},"batch":2,"seq":8,"task":"causal-lm","input":[1,2],"freeze":["a"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := Parse(data)
		if err == nil && (j.Batch <= 0 || j.Accumulate <= 0 || j.Source == "") {
			t.Errorf("accepted %+v", j)
		}
	})
}
