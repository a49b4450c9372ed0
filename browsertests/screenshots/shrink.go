package main

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"slices"
)

// shrink gives a picture its 256 most frequent colours and the nearest of them to the rest: a page of flat colours loses
// nothing a person sees and two thirds of its bytes.
func shrink(data []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	box := full.Bounds()
	count := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(full.At(x, y)).(color.RGBA) }
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	palette := frequent(count)
	nearest := map[color.RGBA]uint8{}
	out := image.NewPaletted(box, palette)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			c := at(x, y)
			i, ok := nearest[c]
			if !ok {
				i = uint8(palette.Index(c))
				nearest[c] = i
			}
			out.SetColorIndex(x, y, i)
		}
	}
	var small bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&small, out)
	return small.Bytes(), err
}

func frequent(count map[color.RGBA]int) color.Palette {
	all := make([]color.RGBA, 0, len(count))
	for c := range count {
		all = append(all, c)
	}
	key := func(c color.RGBA) int { return int(c.R)<<16 | int(c.G)<<8 | int(c.B) }
	slices.SortFunc(all, func(a, b color.RGBA) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(key(a), key(b))) })
	var out color.Palette
	for _, c := range all[:min(len(all), 256)] {
		out = append(out, c)
	}
	return out
}
