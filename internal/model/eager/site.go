package eager

import "github.com/plimsoll/plimsoll/internal/memory/tape"

// site is a place in the model where something runs or belongs: the dotted path of a module or a parameter. There is one for each path, so that what is known of it is found
// without looking at the letters of the path again: every request and release asks.
type site struct {
	path   string
	layer  int32     // the repeated layer it belongs to; -1: none
	owners []uint32  // of memory that belongs here
	inside []entered // what was entered from here
	last   int       // which of these last
}

// entered is a site with its name within another.
type entered struct {
	name string
	*site
}

// siteOf is the site of a path.
func (p *Process) siteOf(path string) *site {
	s, ok := p.sites[path]
	if !ok {
		s = &site{path: path, layer: -1}
		if _, _, layer, found := tape.Layer(path); found {
			s.layer = int32(layer)
		}
		p.sites[path] = s
	}
	return s
}

// within is the site that a name means here. Layers are entered in turn, so it is mostly the one that was entered last or the next.
func (p *Process) within(s *site, name string) *site {
	for i := range s.inside {
		at := (s.last + i) % len(s.inside)
		if s.inside[at].name == name {
			s.last = at
			return s.inside[at].site
		}
	}
	path := s.path
	if path != "" && name != "" {
		path += "."
	}
	in := p.siteOf(path + name)
	s.last = len(s.inside)
	s.inside = append(s.inside, entered{name, in})
	return in
}

// here is where the process is.
func (p *Process) here() *site { return p.path[len(p.path)-1] }

func (p *Process) module() string { return p.here().path }

// enter goes to a site; pop comes back.
func (p *Process) enter(s *site) { p.path = append(p.path, s) }

func (p *Process) pop() { p.path = p.path[:len(p.path)-1] }

// ownerAt is the index of an owner on the tape, which gets a new one. Few operators ask for memory at one site.
func (p *Process) ownerAt(s *site, c tape.Category, op string) uint32 {
	for _, i := range s.owners {
		if o := &p.tape.Owners[i]; o.Category == c && o.Op == op {
			return i
		}
	}
	i := uint32(len(p.tape.Owners))
	p.tape.Owners = append(p.tape.Owners, tape.Owner{Category: c, Module: s.path, Op: op})
	s.owners = append(s.owners, i)
	return i
}
