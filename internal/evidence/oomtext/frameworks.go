package oomtext

import (
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/units"
)

// elementSizes of TensorFlow's type names.
var elementSizes = map[string]units.Bytes{
	"float": 4, "double": 8, "half": 2, "bfloat16": 2, "int32": 4, "int64": 8, "int8": 1, "uint8": 1, "int16": 2,
	"bool": 1, "complex64": 8, "complex128": 16,
}

// readTensorFlow reads "OOM when allocating tensor with shape[16,112] and type float on …device:GPU:0": the
// request is the product.
func readTensorFlow(t squashed, at int) (span, bool) {
	m := newMessage(DeviceOOM, "tensorflow")
	m.Library = "tensorflow"
	end := at + len("oomwhenallocatingtensor")
	i := t.find("shape[", end, end+20)
	if i < 0 {
		return span{}, false
	}
	m.Shape, end = t.shapeAt(i+len("shape["), ']')
	if t.has(end, "andtype") {
		end += len("andtype")
		m.DType = typeName(t.s[end:])
		end += len(m.DType)
	}
	if i := t.find("device:", end, end+60); i >= 0 {
		i += len("device:")
		m.Backend = map[bool]string{true: "cuda", false: "cpu"}[t.has(i, "gpu")]
		if n, next, ok := t.intAt(i + 4); ok {
			m.Device, end = n, next
		}
		if m.Backend == "cpu" {
			m.Kind = HostOOM
		}
	}
	m.Requested = tensorBytes(m.Shape, elementSizes[m.DType])
	m.Truncated = m.DType == ""
	return span{&m, at, end}, true
}

// readBFC reads TensorFlow's allocator, which prints a rounded size and the bytes: "failed to allocate 10.91G
// (11715084288 bytes) from device", "ran out of memory trying to allocate 2.25GiB (rounded to 2415919104)".
func readBFC(t squashed, at int) (span, bool) {
	m := newMessage(DeviceOOM, "tensorflow")
	m.Library, m.Backend = "tensorflow", "cuda"
	number := t.find("allocate", at, at+40) + len("allocate")
	stop := t.numberEnd(number)
	if stop == number {
		return span{}, false
	}
	open := t.find("(", stop, stop+6)
	if open < 0 {
		return span{}, false
	}
	exact := open + 1
	if t.has(exact, "roundedto") {
		exact += len("roundedto")
	}
	amount, end, ok := t.countAt(exact)
	if !ok || !t.has(end, "bytes)") && !t.has(end, ")") {
		return span{}, false
	}
	m.Requested = amount
	m.Requested.Text = t.rawText(number, open)
	if t.has(at, "failedtoallocate") {
		m.Purpose = "pool"
	}
	if strings.Contains(t.s[max(0, at-120):min(len(t.s), at+120)], "rocm") || t.find("hiperror", end, end+30) >= 0 {
		m.Backend = "hip"
	}
	if i := t.find("cudaerroroutofmemory", end, end+40); i >= 0 {
		end = i + len("cudaerroroutofmemory")
		if t.has(end, ":outofmemory") {
			end += len(":outofmemory")
		}
	}
	return span{&m, at, end}, true
}

func typeName(s string) string {
	best := ""
	for name := range elementSizes {
		if strings.HasPrefix(s, name) && len(name) > len(best) {
			best = name
		}
	}
	return best
}

// tensorBytes multiplies a shape out; an unknown type or an overflow gives an unknown amount.
func tensorBytes(shape []int64, element units.Bytes) Amount {
	if element == 0 || len(shape) == 0 {
		return Amount{}
	}
	total := int64(element)
	for _, n := range shape {
		if n < 0 || n > 0 && total > (1<<62)/n {
			return Amount{}
		}
		total *= n
	}
	return Amount{Bytes: units.Bytes(total), Known: true}
}

// shapeAt reads numbers with commas up to the closing bracket.
func (t squashed) shapeAt(i int, closing byte) ([]int64, int) {
	var shape []int64
	for len(shape) < 32 {
		end := i
		for end < len(t.s) && digit(t.s[end]) {
			end++
		}
		n, err := strconv.ParseInt(t.s[min(i, len(t.s)):end], 10, 64)
		if err != nil {
			break
		}
		shape = append(shape, n)
		i = end
		if !t.has(i, ",") {
			break
		}
		i++
	}
	if i < len(t.s) && t.s[i] == closing {
		i++
	}
	return shape, i
}

// readXLA reads JAX's and XLA's errors.
func readXLA(t squashed, at int) (span, bool) {
	m := newMessage(DeviceOOM, "jax")
	m.Library = "jax"
	start := at
	if strings.HasSuffix(t.s[:at], "resourceexhausted:") {
		start = at - len("resourceexhausted:")
	}
	m.Class, start = t.classBefore(start)
	end := t.find("allocat", at, at+60)
	if end < 0 { // "Ran out of memory in memory space hbm. Used 17.00G of 15.48G hbm."
		m.Backend = "tpu"
		return span{&m, start, t.readProgram(&m, at)}, true
	}
	for end < len(t.s) && letter(t.s[end]) {
		end++
	}
	amount, next, ok := t.amountAt(end)
	if !ok {
		return span{}, false
	}
	m.Requested, end = amount, next
	if t.has(end, "(") { // the same in bytes
		if exact, next, ok := t.amountAt(end + 1); ok {
			m.Requested = Amount{Bytes: exact.Bytes, Known: exact.Known, Text: amount.Text}
			end = next
		}
	}
	if i := t.find("ondeviceordinal", end, end+20); i >= 0 {
		if n, next, ok := t.intAt(i + len("ondeviceordinal")); ok {
			m.Device, end = n, next
		}
	}
	return span{&m, start, end}, true
}

// readVLLM reads vLLM's refusals to start (vllm/v1/worker/utils.py, vllm/v1/core/kv_cache_utils.py).
func readVLLM(t squashed, at int) (span, bool) {
	m := newMessage(Refused, "vllm")
	m.Library, m.Backend = "vllm", "cuda"
	start := at
	m.Class, start = t.classBefore(at)
	if !t.has(at, "freememory") {
		m.Kind = CacheFull
	}
	if t.has(at, "noavailable") {
		return span{&m, start, at + len("noavailablememoryforthecacheblocks")}, true
	}
	t.readTokens(&m, at)
	if t.has(at, "canbestored") {
		return span{&m, start, at + len("canbestoredinkvcache")}, strings.Contains(t.before(at, 80), "maximumnumberoftokens")
	}
	if t.has(at, "availablekv") {
		end := at + len("availablekvcachememory")
		end = t.amountBehind("(", end, end+2, &m.Free)
		if i := t.find("kvcacheisneeded", max(0, at-120), at); i >= 0 {
			m.Requested, _ = t.amountBefore(i)
		}
		return span{&m, start, end}, m.Free.Known
	}
	end := at + len("freememoryondevice")
	if t.has(end, "cuda:") {
		m.Device, end, _ = t.intAt(end + len("cuda:"))
	}
	slash := t.find("/", end, end+20)
	if slash < 0 {
		return span{}, false
	}
	m.Capacity, end, _ = t.amountAt(slash + 1)
	if first := t.numberStart(slash); first < slash {
		// "67.24/79.25 GiB": the unit of the second holds for both.
		m.Free, _ = newAmount(t.s[first:slash], unit{"gib", "GiB", units.GiB})
	}
	if i := t.find("utilization(", end, end+90); i >= 0 {
		i += len("utilization(")
		stop := t.numberEnd(i)
		m.Utilization = decimal(t.s[i:stop])
		end = stop
		if t.has(stop, ",") {
			m.Requested, end, _ = t.amountAt(stop + 1)
		}
	}
	return span{&m, start, end}, m.Capacity.Known
}

// readTokens reads the length a server was asked for, and the length it has room for.
func (t squashed) readTokens(m *Message, at int) {
	from, to := t.paragraph(at, at)
	for _, field := range []struct {
		anchor string
		to     *int
	}{{"maxseqlen(", &m.Tokens}, {"inkvcache(", &m.Room}, {"maximummodellengthis", &m.Room}} {
		if i := t.find(field.anchor, from, to); i >= 0 {
			if n, _, ok := t.intAt(i + len(field.anchor)); ok && n > 0 {
				*field.to = n
			}
		}
	}
}

func decimal(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return f
}

// readAccelerate reads find_executable_batch_size giving up.
func readAccelerate(t squashed, at int) (span, bool) {
	m := newMessage(GaveUp, "accelerate")
	m.Library = "accelerate"
	start := at
	m.Class, start = t.classBefore(at)
	return span{&m, start, at + len("noexecutablebatchsizefound")}, !quotedName(t, at) || m.Class != ""
}

// readForked reads the error of CUDA used in a forked worker.
func readForked(t squashed, at int) (span, bool) {
	m := newMessage(WorkerCUDA, "forked-cuda")
	m.Backend = "cuda"
	start := at
	m.Class, start = t.classBefore(at)
	return span{&m, start, at + len("cannotre-initializecudainforkedsubprocess")}, !quotedName(t, at) || m.Class != ""
}
