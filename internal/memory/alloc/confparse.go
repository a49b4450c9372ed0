package alloc

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// ParseConf reads a settings string (the value of PYTORCH_CUDA_ALLOC_CONF) as a PyTorch version does, and
// refuses what that version refuses. Sources: CUDAAllocatorConfig::parseArgs up to 2.9,
// c10/core/AllocatorConfig.cpp from 2.10 on.
func ParseConf(text string, v torch.Version) (Conf, error) {
	p := confParser{tokens: lexConf(text), version: v.OrLatest()}
	// From 2.11 on the segment size is read first: the limits of other keys depend on it.
	p.conf.LargeSegment = 0
	for i := 0; i+2 < len(p.tokens) && torch.SegmentSizeFirst.Has(p.version); i++ {
		if p.tokens[i] == "large_segment_size_mb" {
			if n, err := leadingInt(p.tokens[i+2]); err == nil {
				p.conf.LargeSegment = mebibytes(n)
			}
		}
	}
	for p.at < len(p.tokens) {
		if err := p.setting(); err != nil {
			return Conf{}, fmt.Errorf("allocator settings %q: %w", text, err)
		}
	}
	return p.conf, nil
}

// lexConf splits at the punctuation PyTorch splits at and drops spaces.
func lexConf(text string) []string {
	var tokens []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			tokens = append(tokens, word.String())
			word.Reset()
		}
	}
	for _, ch := range text {
		switch ch {
		case ',', ':', '[', ']':
			flush()
			tokens = append(tokens, string(ch))
		case ' ':
		default:
			word.WriteRune(ch)
		}
	}
	flush()
	return tokens
}

type confParser struct {
	tokens  []string
	at      int
	version torch.Version
	conf    Conf
}

func (p *confParser) setting() error {
	key := p.next()
	releases, ok := torch.AllocatorSettings[key]
	if !ok {
		return fmt.Errorf("unknown key %q", key)
	}
	if !releases.Has(p.version) {
		return fmt.Errorf("PyTorch %s does not know the key %q", p.version, key)
	}
	if err := p.expect(":"); err != nil {
		return fmt.Errorf("after %q: %w", key, err)
	}
	if err := p.value(key); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if p.at < len(p.tokens) {
		return p.expect(",")
	}
	return nil
}

func (p *confParser) value(key string) (err error) {
	c := &p.conf
	switch key {
	case "max_split_size_mb":
		c.MaxSplit, err = p.sizeAboveSegment()
	case "max_non_split_rounding_mb":
		c.NonSplitRounding, err = p.sizeAboveSegment()
	case "large_segment_size_mb":
		if c.LargeSegment, err = p.size(); err == nil && c.LargeSegment <= minLargeAlloc {
			err = fmt.Errorf("must be greater than 10")
		}
	case "roundup_bypass_threshold_mb":
		c.Bypass, err = p.size()
	case "garbage_collection_threshold":
		c.GarbageCollection, err = p.fraction()
		if err == nil && (c.GarbageCollection <= 0 || c.GarbageCollection >= 1) {
			err = fmt.Errorf("must lie between 0 and 1")
		}
	case "per_process_memory_fraction":
		c.Fraction, err = p.fraction()
		if err == nil && (c.Fraction < 0 || c.Fraction > 1) {
			err = fmt.Errorf("must lie between 0 and 1")
		}
	case "expandable_segments":
		c.Expandable, err = p.boolean()
	case "throw_on_cudamalloc_oom":
		c.ThrowOnOOM, err = p.boolean()
	case "roundup_power2_divisions":
		err = p.divisions()
	case "backend":
		err = p.backend()
	default: // read and not simulated: pinned host memory, locks, reservations
		if p.next() == "" {
			err = fmt.Errorf("a value is missing")
		}
	}
	return err
}

func (p *confParser) next() string {
	if p.at >= len(p.tokens) {
		return ""
	}
	p.at++
	return p.tokens[p.at-1]
}

func (p *confParser) expect(token string) error {
	if got := p.next(); got != token {
		return fmt.Errorf("expected %q, found %q", token, got)
	}
	return nil
}

// leadingInt reads digits and ignores what follows them, as std::stoi does.
func leadingInt(text string) (int, error) {
	end := 0
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	n, err := strconv.ParseUint(text[:end], 10, 31)
	if err != nil {
		return 0, fmt.Errorf("expected a whole number, found %q", text)
	}
	return int(n), nil
}

func mebibytes(n int) units.Bytes { return units.Bytes(n) * units.MiB }

func (p *confParser) size() (units.Bytes, error) {
	n, err := leadingInt(p.next())
	return mebibytes(n), err
}

// sizeAboveSegment reads a size that must be more than the large segment (from 2.10 on: at least it).
func (p *confParser) sizeAboveSegment() (units.Bytes, error) {
	size, err := p.size()
	if err != nil {
		return 0, err
	}
	least := p.conf.resolved().LargeSegment
	if torch.SharedConfigReader.Has(p.version) {
		if size < least {
			return 0, fmt.Errorf("must be at least %d for PyTorch %s", least/units.MiB, p.version)
		}
	} else if size <= least {
		return 0, fmt.Errorf("must be greater than %d for PyTorch %s", least/units.MiB, p.version)
	}
	return size, nil
}

func (p *confParser) fraction() (float64, error) {
	text := p.next()
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || x != x {
		return 0, fmt.Errorf("expected a number, found %q", text)
	}
	return x, nil
}

func (p *confParser) boolean() (bool, error) {
	switch text := p.next(); text {
	case "True":
		return true, nil
	case "False":
		return false, nil
	default:
		return false, fmt.Errorf("must be True or False, found %q", text)
	}
}

func (p *confParser) backend() error {
	switch text := p.next(); text {
	case "native":
	case "cudaMallocAsync", "hipMallocAsync":
		p.conf.Async = true
	default:
		return fmt.Errorf("must be native or cudaMallocAsync, found %q", text)
	}
	return nil
}

// divisions reads one number for all sizes, or (2.0 and later) a list of boundaries in MiB.
func (p *confParser) divisions() error {
	first := p.next()
	if first == "[" {
		if !torch.DivisionLists.Has(p.version) {
			return fmt.Errorf("PyTorch %s takes one number, no list", p.version)
		}
		return p.divisionList()
	}
	d, err := leadingInt(first)
	if err != nil {
		return err
	}
	if d == 0 || d&(d-1) != 0 {
		return fmt.Errorf("%d is not a power of two", d)
	}
	p.conf.Divisions = uniform(d)
	return nil
}

// divisionList reads [256:1,512:2,>:8]. Intervals before the first boundary get its value; ">" fills up from the
// last boundary, which it overwrites up to 2.9 and spares from 2.10 on.
func (p *confParser) divisionList() error {
	last, seen := 0, false
	for p.at < len(p.tokens) && p.tokens[p.at] != "]" {
		boundary := p.next()
		if err := p.expect(":"); err != nil {
			return err
		}
		d, err := leadingInt(p.next())
		if err != nil {
			return err
		}
		if d&(d-1) != 0 || d == 0 && !torch.AlignedRounding.Has(p.version) {
			return fmt.Errorf("%d is not a power of two", d)
		}
		if boundary == ">" {
			from := last
			if torch.SharedConfigReader.Has(p.version) {
				from++
			}
			fill(&p.conf.Divisions, from, Intervals, d)
		} else if last, err = p.boundary(boundary, d, seen); err != nil {
			return err
		}
		seen = seen || boundary != ">"
		if p.at < len(p.tokens) && p.tokens[p.at] != "]" {
			if err := p.expect(","); err != nil {
				return err
			}
		}
	}
	return p.expect("]")
}

// boundary sets the interval that begins at a number of MiB and gives its index.
func (p *confParser) boundary(text string, d int, seen bool) (int, error) {
	mib, err := leadingInt(text)
	if err != nil {
		return 0, err
	}
	if mib == 0 || mib&(mib-1) != 0 {
		return 0, fmt.Errorf("boundary %d is not a power of two", mib)
	}
	i := min(bits.Len(uint(mib))-1, Intervals-1)
	if !seen {
		fill(&p.conf.Divisions, 0, i, d)
	}
	p.conf.Divisions[i] = d
	return i, nil
}

func fill(all *[Intervals]int, from, to, d int) {
	for i := from; i < to; i++ {
		all[i] = d
	}
}
