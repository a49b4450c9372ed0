package hfconfig

import "testing"

func TestNumbersThatOnlyPythonWritesAreRead(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":1}`: `{"a":1}`,
		`{"limit":[0.0,Infinity],"low":-Infinity,"none":NaN}`: `{"limit":[0.0,1e999],"low":-1e999,"none":null}`,
		`{"text":"Infinity and \"NaN","n":NaN}`:               `{"text":"Infinity and \"NaN","n":null}`,
		`{"broken":"NaN`:                                      `{"broken":"NaN`,
	} {
		if got := string(StandardJSON([]byte(in))); got != want {
			t.Errorf("%s became %s", in, got)
		}
	}
	if c := parse(t, `{"model_type":"llama","x":[Infinity,NaN]}`); c.Int("hidden_size") != 4096 {
		t.Error("a configuration with Infinity in it")
	}
}
