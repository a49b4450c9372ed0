package holders

// Title names a holder as a person would: parameters of model in train.py:12, feats[*] in train.py:8.
func (h *Holder) Title() string {
	name := h.Name.String()
	switch h.Role {
	case Parameter, Buffer, Gradient:
		return string(h.Role) + "s of " + name
	case Optimizer:
		return "optimizer state of " + name
	case Saved:
		if name == "" {
			return "saved for backward, in a graph without a name"
		}
		return "saved for backward in the graph of " + name
	case Input:
		return name + ", an input of this step"
	case Library:
		if h.Kind != "" {
			return h.Kind
		}
		return "held only by C++ or a library"
	case Temporary:
		return h.temporary()
	case Variable:
		return name
	}
	return "no name reaches it"
}

func (h *Holder) temporary() string {
	switch {
	case h.In != nil:
		return "temporaries of " + h.In.String() + ", which is running"
	case h.Kind != "":
		return h.Kind
	}
	return "temporaries, or garbage that Python has not collected"
}

// String is a name with its place: feats[*] in train.py:8.
func (n Name) String() string {
	if n.In == nil {
		return n.Name
	}
	return n.Name + " in " + n.In.String()
}

// Part says what is special about a part of a graph or of an optimizer's state; empty where nothing is.
func (h *Holder) Part() string {
	switch {
	case h.Op != "" && h.Module != "":
		return h.Op + " of " + h.Module
	case h.Op != "":
		return h.Op
	case h.Role == Optimizer:
		return h.Kind
	}
	return ""
}
