package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll/plimsoll/snapshot"
)

// A bundle is what helps to find a bug: the report, and the input with its names scrubbed. Scrubbing keeps every length, so that what went wrong goes wrong again.

// maxBundled bounds each input of a bundle, uncompressed.
const maxBundled = 64 << 20

// writeBundle writes the report of a crash, scrubbed, and the files of its command line.
func writeBundle(path, report string, args []string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	add := func(name string, data []byte) error {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data))}); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	}
	if err := add("report.txt", []byte(report)); err != nil {
		return err
	}
	for i, arg := range args {
		data, ok := bundled(arg)
		if !ok || arg == path {
			continue
		}
		if err := add(fmt.Sprintf("input%d%s", i, filepath.Ext(arg)), scrub(data)); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return z.Close()
}

// bundled reads an argument that is a file.
func bundled(arg string) ([]byte, bool) {
	info, err := os.Stat(arg)
	if err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	f, err := os.Open(arg)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	plain, err := snapshot.Decompress(f)
	if err != nil {
		return nil, false
	}
	data, _ := io.ReadAll(io.LimitReader(plain, maxBundled)) // as far as it can be read
	return data, true
}

// scrub replaces names by others of the same length.
func scrub(data []byte) []byte {
	if snapshot.Sniff(data) == snapshot.FormatPickle {
		return scrubPickle(bytes.Clone(data))
	}
	return scrubText(data)
}

var word = regexp.MustCompile(`[\pL_][\pL\pN_]*`)

// scrubText replaces every word that is not one of PyTorch's, Python's or plimsoll's own.
func scrubText(data []byte) []byte {
	return word.ReplaceAllFunc(data, func(w []byte) []byte {
		if known(string(w)) {
			return w
		}
		return other(w)
	})
}

// scrubPickle replaces words inside the strings of a pickle: behind an opcode whose length fits what follows.
func scrubPickle(data []byte) []byte {
	for i := 0; i < len(data); i++ {
		at, n := 0, 0
		switch rest := data[i:]; {
		case (rest[0] == 'X' || rest[0] == 'T') && len(rest) > 5:
			at, n = 5, int(binary.LittleEndian.Uint32(rest[1:]))
		case (rest[0] == 0x8c || rest[0] == 'U') && len(rest) > 2:
			at, n = 2, int(rest[1])
		}
		if n <= 0 || n > len(data)-i-at || !utf8.Valid(data[i+at:i+at+n]) {
			continue
		}
		copy(data[i+at:], scrubText(data[i+at:i+at+n]))
		i += at + n - 1
	}
	return data
}

// other is a word of the same length that is the same for the same word.
func other(w []byte) []byte {
	h := fnv.New64a()
	h.Write(w)
	sum := h.Sum64()
	out := make([]byte, len(w))
	for i := range out {
		out[i] = "abcdefghijklmnopqrstuvwxyz"[sum%26]
		if sum /= 26; sum == 0 {
			sum = uint64(len(w)) + 7
		}
	}
	return out
}

// known words say nothing about whose run it was: fields and actions of recordings, messages and configurations, frames of PyTorch.
func known(w string) bool {
	return len(w) < 3 || strings.Contains(knownWords, " "+strings.ToLower(w)+" ")
}

const knownWords = ` action active active_allocated active_awaiting_free active_size addr address alloc alloc_conf allocated allocated_size allocation allocator allocator_settings amd64 and annotation arm64 attention
 backward batch blocks bytes call capacity clone command config cuda cudnn darwin dataloader def device device_free device_traces diff doctor dtype else end entries error event events except expandable expandable_segments explain
 external_annotations false file filename fit float for forward frames free free_completed free_requested from function garbage_collection_threshold gib go goroutine gpu graph graph_module grad head holders host http
 https import inactive index input inputs int internal is_expandable job json kind layers len length line lint linux load main malloc max_split_size memory message metadata metrics mib model model_type module name names nn nodes none
 notes null num_attention_heads num_hidden_layers num_layers of oom optim optimizer out outputs panic param parameter parameters peak pickle plimsoll pool predict process py python pytorch rank record replay report requested requested_size
 reserved roundup_power2_divisions run runtime schema segment segment_alloc segment_free segment_map segment_pool_id segment_type segments self seq shape size sizes small large snapshot stage start state step stream strides sum tape target
 tensor tensor_values text time_us torch total_size traceback train true type user_metadata value version vocab_size hidden_size view watch weight with zero_grad
 index out of range with length invalid memory address nil pointer dereference slice bounds divide by zero assignment entry map interface conversion capacity signal gz zst xz pt2 jsonl ipynb html toml `
