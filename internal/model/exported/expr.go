package exported

import (
	"fmt"
	"strconv"
	"strings"
)

// Dim is a size or stride: a number, or an expression of symbolic sizes.
type Dim struct {
	fixed int64
	expr  int32 // index into Graph.exprs; 0 means fixed
}

// Fixed is a dimension that depends on nothing.
func Fixed(n int64) Dim { return Dim{fixed: n} }

// Symbol is a size that was left open when the graph was exported.
type Symbol struct {
	Name     string
	Min, Max int64 // the range the exporter states; Max 0 means open
	Input    int   // the user input whose size it is, or -1
	Axis     int
}

// expr is one size expression: a symbol, a number or a function of other expressions.
type expr struct {
	op     string // "", "Symbol", "Mul", …; "" is a number
	number int64
	symbol int
	args   []expr
}

const maxExprDepth = 40

// exprReader reads both spellings exporters have used: sympy's srepr ("Mul(Integer(512), Symbol('s72', positive=True))")
// and plain Python ("512*s72").
type exprReader struct {
	text   string
	pos    int
	depth  int
	symbol func(name string) int
}

func parseExpr(text string, symbol func(string) int) (expr, error) {
	if len(text) > 1<<16 {
		return expr{}, fmt.Errorf("size expression of %d characters", len(text))
	}
	r := &exprReader{text: text, symbol: symbol}
	e, err := r.sum()
	if err == nil && r.peek() != 0 {
		err = fmt.Errorf("unexpected %q at the end", r.text[r.pos:])
	}
	if err != nil {
		return expr{}, fmt.Errorf("size expression %.60q: %w", text, err)
	}
	return e, nil
}

func (r *exprReader) peek() byte {
	for r.pos < len(r.text) && r.text[r.pos] == ' ' {
		r.pos++
	}
	if r.pos == len(r.text) {
		return 0
	}
	return r.text[r.pos]
}

func (r *exprReader) eat(token string) bool {
	r.peek()
	if strings.HasPrefix(r.text[r.pos:], token) {
		r.pos += len(token)
		return true
	}
	return false
}

func (r *exprReader) sum() (expr, error) {
	if r.depth++; r.depth > maxExprDepth {
		return expr{}, fmt.Errorf("nested too deeply")
	}
	defer func() { r.depth-- }()
	left, err := r.product()
	for err == nil {
		op := ""
		switch {
		case r.eat("+"):
			op = "Add"
		case r.eat("-"):
			op = "Sub"
		default:
			return left, nil
		}
		var right expr
		right, err = r.product()
		left = expr{op: op, args: []expr{left, right}}
	}
	return left, err
}

func (r *exprReader) product() (expr, error) {
	left, err := r.power()
	for err == nil {
		op := ""
		switch {
		case r.eat("//"), r.eat("/"):
			op = "FloorDiv"
		case r.eat("*"):
			op = "Mul"
		default:
			return left, nil
		}
		var right expr
		right, err = r.power()
		left = expr{op: op, args: []expr{left, right}}
	}
	return left, err
}

func (r *exprReader) power() (expr, error) {
	left, err := r.atom()
	if err == nil && r.eat("**") {
		var right expr
		right, err = r.atom()
		left = expr{op: "Pow", args: []expr{left, right}}
	}
	return left, err
}

func (r *exprReader) atom() (expr, error) {
	switch c := r.peek(); {
	case c == '(':
		r.pos++
		e, err := r.sum()
		if err == nil && !r.eat(")") {
			err = fmt.Errorf("missing )")
		}
		return e, err
	case c == '-':
		r.pos++
		if r.depth++; r.depth > maxExprDepth {
			return expr{}, fmt.Errorf("nested too deeply")
		}
		e, err := r.atom()
		r.depth--
		return expr{op: "Sub", args: []expr{{}, e}}, err
	case c >= '0' && c <= '9':
		n, err := strconv.ParseInt(r.word(), 10, 64)
		return expr{number: n}, err
	case isLetter(c):
		return r.call(r.word())
	}
	return expr{}, fmt.Errorf("unexpected %q", r.text[r.pos:])
}

func isLetter(c byte) bool { return c == '_' || c|32 >= 'a' && c|32 <= 'z' }

func (r *exprReader) word() string {
	start := r.pos
	for r.pos < len(r.text) && (isLetter(r.text[r.pos]) || r.text[r.pos] >= '0' && r.text[r.pos] <= '9') {
		r.pos++
	}
	return r.text[start:r.pos]
}

// call reads what follows a name: nothing (a symbol), or arguments.
func (r *exprReader) call(name string) (expr, error) {
	if !r.eat("(") {
		return expr{op: "Symbol", symbol: r.symbol(name)}, nil
	}
	if name == "Symbol" {
		return r.quotedSymbol()
	}
	e := expr{op: name}
	for r.peek() != ')' {
		arg, err := r.sum()
		if err != nil {
			return expr{}, err
		}
		e.args = append(e.args, arg)
		if !r.eat(",") {
			break
		}
	}
	if !r.eat(")") {
		return expr{}, fmt.Errorf("missing )")
	}
	if name == "Integer" && len(e.args) == 1 {
		return e.args[0], nil
	}
	return e, checkCall(e)
}

// quotedSymbol reads 's72', positive=True, integer=True).
func (r *exprReader) quotedSymbol() (expr, error) {
	rest := r.text[r.pos:]
	end := strings.IndexByte(rest, ')')
	if end < 0 || len(rest) < 3 || rest[0] != '\'' {
		return expr{}, fmt.Errorf("symbol without a name")
	}
	name, _, ok := strings.Cut(rest[1:end], "'")
	if !ok || name == "" {
		return expr{}, fmt.Errorf("symbol without a name")
	}
	r.pos += end + 1
	return expr{op: "Symbol", symbol: r.symbol(name)}, nil
}

// checkCall refuses functions whose value is not known here.
func checkCall(e expr) error {
	want := map[string]int{"Mul": -1, "Add": -1, "Min": -1, "Max": -1, "Pow": 2, "FloorDiv": 2, "CleanDiv": 2, "CeilDiv": 2, "Mod": 2, "PythonMod": 2, "ModularIndexing": 3, "PowByNatural": 2, "IntTrueDiv": 2, "Identity": 1, "CeilToInt": 1, "FloorToInt": 1, "TruncToInt": 1, "ToFloat": 1}
	n, ok := want[e.op]
	switch {
	case !ok:
		return fmt.Errorf("function %q is not known", e.op)
	case n < 0 && len(e.args) == 0, n >= 0 && len(e.args) != n:
		return fmt.Errorf("%s with %d arguments", e.op, len(e.args))
	}
	return nil
}

// value computes an expression; sizes beyond 2^50 are refused.
func (e expr) value(symbols []int64) (int64, error) {
	switch e.op {
	case "":
		return e.number, nil
	case "Symbol":
		return symbols[e.symbol], nil
	}
	args := make([]int64, len(e.args))
	for i, a := range e.args {
		v, err := a.value(symbols)
		if err != nil {
			return 0, err
		}
		args[i] = v
	}
	v, err := apply(e.op, args)
	if err == nil && (v > 1<<50 || v < -1<<50) {
		err = fmt.Errorf("a size of %d is larger than any tensor", v)
	}
	return v, err
}

func apply(op string, args []int64) (int64, error) {
	v := args[0]
	for i, a := range args[1:] {
		switch op {
		case "Mul":
			if a != 0 && (v*a)/a != v {
				return 0, fmt.Errorf("a size is larger than any tensor")
			}
			v *= a
		case "Add":
			v += a
		case "Sub":
			v -= a
		case "Min":
			v = min(v, a)
		case "Max":
			v = max(v, a)
		case "Pow", "PowByNatural":
			return power(v, a)
		default:
			var err error
			if v, err = divide(op, v, a, i); err != nil {
				return 0, err
			}
		}
	}
	return v, nil
}

func divide(op string, v, by int64, i int) (int64, error) {
	if by == 0 {
		return 0, fmt.Errorf("division by zero")
	}
	switch {
	case op == "CeilDiv":
		return -floorDiv(-v, by), nil
	case op == "Mod", op == "PythonMod", op == "ModularIndexing" && i == 1:
		return v - floorDiv(v, by)*by, nil
	}
	return floorDiv(v, by), nil
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func power(base, exponent int64) (int64, error) {
	if exponent < 0 || exponent > 62 {
		return 0, fmt.Errorf("power %d of a size", exponent)
	}
	v := int64(1)
	for range exponent {
		if v *= base; v > 1<<50 || v < -1<<50 {
			return 0, fmt.Errorf("a size is larger than any tensor")
		}
	}
	return v, nil
}
