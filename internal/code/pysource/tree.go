package pysource

// Expr is an expression.
type Expr interface {
	Node
	expr()
}

// Stmt is a statement.
type Stmt interface {
	Node
	stmt()
}

// Expressions.
type (
	// Name is an identifier.
	Name struct {
		Span
		ID string
	}
	// Number is a numeric literal as it is written.
	Number struct {
		Span
		Text string
	}
	// String is one or more adjacent literals. Value is their text with the escapes left as they are; Parts
	// holds the expressions inside an f-string.
	String struct {
		Span
		Value     string
		Formatted bool
		Parts     []Expr
	}
	// Constant is True, False, None or an ellipsis.
	Constant struct {
		Span
		Text string
	}
	// Attribute is X.Attr. Path is the whole chain ("self.model.head") where it is one of names alone.
	Attribute struct {
		Span
		X    Expr
		Attr string
		Path string
	}
	// Call is Func(Args).
	Call struct {
		Span
		Func Expr
		Args []Arg
	}
	// Subscript is X[Index].
	Subscript struct {
		Span
		X, Index Expr
	}
	// Slice is Low:High:Step inside a subscript; any of them may be nil.
	Slice struct {
		Span
		Low, High, Step Expr
	}
	// Binary is an arithmetic or bit operation.
	Binary struct {
		Span
		Op          string
		Left, Right Expr
	}
	// Unary is -X, +X, ~X or not X.
	Unary struct {
		Span
		Op string
		X  Expr
	}
	// Bool is a chain of one of "and", "or".
	Bool struct {
		Span
		Op     string
		Values []Expr
	}
	// Compare is a chain of comparisons: len(Ops) == len(Values)-1.
	Compare struct {
		Span
		Ops    []string
		Values []Expr
	}
	// Conditional is Then if Test else Else.
	Conditional struct {
		Span
		Test, Then, Else Expr
	}
	// Lambda is an anonymous function.
	Lambda struct {
		Span
		Params []Param
		Body   Expr
	}
	// Sequence is a tuple, list or set display; Kind is '(', '[' or '{'.
	Sequence struct {
		Span
		Kind  byte
		Items []Expr
	}
	// Dict is a dict display; a nil key marks **value.
	Dict struct {
		Span
		Keys, Values []Expr
	}
	// Comprehension is a list, set, dict or generator comprehension; Kind is '[', '{', ':' or '('.
	Comprehension struct {
		Span
		Kind       byte
		Key, Value Expr // Key only in dicts
		Clauses    []Clause
	}
	// Await is await X; Yield is yield X or yield from X.
	Await struct {
		Span
		X Expr
	}
	Yield struct {
		Span
		X    Expr // nil for a bare yield
		From bool
	}
	// Walrus is Target := Value.
	Walrus struct {
		Span
		Target *Name
		Value  Expr
	}
	// Starred is *X or, where Double, **X.
	Starred struct {
		Span
		X      Expr
		Double bool
	}
	// BadExpr stands for text that is not an expression.
	BadExpr struct{ Span }
)

// Arg is one argument of a call; Name is empty for a positional one, Star counts leading stars.
type Arg struct {
	Name  string
	Value Expr
	Star  int
}

// Clause is "for Target in Iter if Conds…" of a comprehension.
type Clause struct {
	Target, Iter Expr
	Conds        []Expr
}

// Param is one parameter; Star counts leading stars.
type Param struct {
	Span
	Name                string
	Annotation, Default Expr
	Star                int
}

// Statements.
type (
	// ExprStmt is an expression that stands alone.
	ExprStmt struct {
		Span
		X Expr
	}
	// Assign is Targets[0] = Targets[1] = … = Value. Op is "+=" and its like where it is an augmented assignment.
	// Value is nil for a bare annotation.
	Assign struct {
		Span
		Targets    []Expr
		Op         string
		Annotation Expr
		Value      Expr
	}
	// Return, Raise, Assert, Delete: the simple statements with operands.
	Return struct {
		Span
		X Expr // nil for a bare return
	}
	Raise struct {
		Span
		X, Cause Expr
	}
	Assert struct {
		Span
		Test, Message Expr
	}
	Delete struct {
		Span
		Targets []Expr
	}
	// Word is pass, break, continue, or global and nonlocal with their names.
	Word struct {
		Span
		Keyword string
		Names   []string
	}
	// Import is "import a.b as c, …" and, where From, "from .module import name as alias, …".
	Import struct {
		Span
		From    bool
		Module  string // with its leading dots
		Aliases []Alias
	}
	// If holds an if with its elifs in Branches.
	If struct {
		Span
		Branches []Branch
		Else     []Stmt
	}
	// While and For are loops.
	While struct {
		Span
		Test       Expr
		Body, Else []Stmt
	}
	For struct {
		Span
		Target, Iter Expr
		Body, Else   []Stmt
		Async        bool
	}
	// With is a with statement.
	With struct {
		Span
		Items []WithItem
		Body  []Stmt
		Async bool
	}
	// Try is a try statement.
	Try struct {
		Span
		Body     []Stmt
		Handlers []Handler
		Else     []Stmt
		Finally  []Stmt
	}
	// Match is a match statement.
	Match struct {
		Span
		Subject Expr
		Cases   []Case
	}
	// Function is a def.
	Function struct {
		Span
		Name       string
		NameSpan   Span
		Decorators []Expr
		Params     []Param
		Returns    Expr
		Body       []Stmt
		Async      bool
	}
	// Class is a class; Args holds bases and keywords.
	Class struct {
		Span
		Name       string
		NameSpan   Span
		Decorators []Expr
		Args       []Arg
		Body       []Stmt
	}
	// TypeAlias is "type Name = Value".
	TypeAlias struct {
		Span
		Name  string
		Value Expr
	}
	// BadStmt stands for text that is not a statement; Body holds the block below a broken header.
	BadStmt struct {
		Span
		Body []Stmt
	}
)

// Alias is one imported name.
type Alias struct{ Name, As string }

// Branch is one test of an if with its block.
type Branch struct {
	Test Expr
	Body []Stmt
}

// WithItem is "Context as Target"; Target may be nil.
type WithItem struct{ Context, Target Expr }

// Handler is one except clause; Type may be nil.
type Handler struct {
	Span
	Type Expr
	Name string
	Body []Stmt
}

// Case is one case of a match.
type Case struct {
	Pattern, Guard Expr
	Body           []Stmt
}

func (*Name) expr()          {}
func (*Number) expr()        {}
func (*String) expr()        {}
func (*Constant) expr()      {}
func (*Attribute) expr()     {}
func (*Call) expr()          {}
func (*Subscript) expr()     {}
func (*Slice) expr()         {}
func (*Binary) expr()        {}
func (*Unary) expr()         {}
func (*Bool) expr()          {}
func (*Compare) expr()       {}
func (*Conditional) expr()   {}
func (*Lambda) expr()        {}
func (*Sequence) expr()      {}
func (*Dict) expr()          {}
func (*Comprehension) expr() {}
func (*Await) expr()         {}
func (*Yield) expr()         {}
func (*Walrus) expr()        {}
func (*Starred) expr()       {}
func (*BadExpr) expr()       {}

func (*ExprStmt) stmt()  {}
func (*Assign) stmt()    {}
func (*Return) stmt()    {}
func (*Raise) stmt()     {}
func (*Assert) stmt()    {}
func (*Delete) stmt()    {}
func (*Word) stmt()      {}
func (*Import) stmt()    {}
func (*If) stmt()        {}
func (*While) stmt()     {}
func (*For) stmt()       {}
func (*With) stmt()      {}
func (*Try) stmt()       {}
func (*Match) stmt()     {}
func (*Function) stmt()  {}
func (*Class) stmt()     {}
func (*TypeAlias) stmt() {}
func (*BadStmt) stmt()   {}
