package holders

import (
	"bufio"
	"bytes"
	"compress/zlib"
	_ "embed"
	"errors"
	"fmt"
	"io"
)

// dictionary is what holders files have in common: the schema's keys, names of PyTorch's own. Never change it: files written with it could not be read any more. A better
// one is another, beside this; the file says by its checksum which it needs. The probe's copy is in _holdersfile.py.
//
//go:embed dictionary.txt
var dictionaryLines []byte

var dictionary = bytes.ReplaceAll(dictionaryLines, []byte("\n"), nil)

// unpack undoes compression with the dictionary; other text is passed on as it is.
func unpack(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(r)
	head, err := in.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read holders: %w", err)
	}
	if !usesDictionary(head) {
		return in, nil
	}
	plain, err := zlib.NewReaderDict(in, dictionary)
	if errors.Is(err, zlib.ErrDictionary) {
		return nil, errors.New("decompress holders: a later version of plimsoll wrote this file: update plimsoll to read it")
	}
	if err != nil {
		return nil, fmt.Errorf("decompress holders: %w", err)
	}
	return plain, nil
}

// usesDictionary tells the head of a zlib stream with a dictionary: https://www.rfc-editor.org/rfc/rfc1950#section-2.2.
func usesDictionary(head []byte) bool {
	return len(head) == 2 && head[0]&0x0f == 8 && head[1]&0x20 != 0 && (int(head[0])<<8+int(head[1]))%31 == 0
}
