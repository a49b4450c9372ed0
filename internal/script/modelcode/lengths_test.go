package modelcode

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

func TestDatasetsAreNamedWithTheirColumn(t *testing.T) {
	t.Parallel()
	d, err := ParseDataset("dataset:org/name,split=test,column=text,tokenizer=gpt2")
	if err != nil || d != (Dataset{Name: "org/name", Split: "test", Column: "text", Tokenizer: "gpt2"}) {
		t.Errorf("%+v, %v", d, err)
	}
	for _, text := range []string{"dataset:", "dataset:x,colunm=y", "dataset:x,column="} {
		if _, err := ParseDataset(text); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

// pretended stands in for the library datasets: the three calls that lengths.py makes of it.
const pretended = `
class Dataset:
    def __init__(self, columns):
        self.columns, self.column_names = columns, list(columns)
    def select_columns(self, names):
        return Dataset({n: self.columns[n] for n in names})
    def iter(self, batch_size):
        n = len(next(iter(self.columns.values())))
        for i in range(0, n, batch_size):
            yield {name: values[i:i + batch_size] for name, values in self.columns.items()}

def load_dataset(name, config=None, data_files=None):
    if name == "missing":
        raise FileNotFoundError("Couldn't find any data file for missing\nmore")
    return {"train": Dataset({"input_ids": [[1] * n for n in (3, 5, 8)] * 700, "text": ["a b", "c", "d"] * 700}), "test": Dataset({"length": [4, 2]})}
`

func TestLengthsComeFromTheInstalledDatasets(t *testing.T) {
	t.Parallel()
	python := probetest.Python(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "datasets.py"), []byte(pretended), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &Reader{Python: python, Env: append(os.Environ(), "PYTHONPATH="+dir)}
	got, err := r.Lengths(Dataset{Name: "some"})
	if err != nil || len(got) != 2100 || !slices.Equal(got[:4], []int{3, 5, 8, 3}) {
		t.Errorf("%d lengths, %v", len(got), err)
	}
	if got, err = r.Lengths(Dataset{Name: "some", Split: "test"}); err != nil || !slices.Equal(got, []int{4, 2}) {
		t.Errorf("%v, %v", got, err)
	}
	for want, d := range map[string]Dataset{
		"Couldn't find any data file for missing": {Name: "missing"},
		"add split=train":                         {Name: "some", Split: "dev"},
		"it has input_ids, text":                  {Name: "some", Column: "tokens"},
		"tokenizer=NAME":                          {Name: "some", Column: "text"},
	} {
		if _, err := r.Lengths(d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, and should say %q", d, err, want)
		}
	}
	if _, err := (&Reader{Python: python, Env: append(os.Environ(), "PYTHONPATH=")}).Lengths(Dataset{Name: "some"}); err == nil || !strings.Contains(err.Error(), "pip install datasets") {
		t.Errorf("without datasets: %v", err)
	}
}
