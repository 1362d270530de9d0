package gearman

// abilities serves what changes which functions a worker can do.
func (s *session) abilities(typ uint32) {
	var name string
	if typ != typeResetAbilities {
		if !validFunction(s.args[0]) {
			s.refuse(faultFunction)
			return
		}
		name = string(s.args[0])
	}
	s.flush()
	switch typ {
	case typeCanDo, typeCanDoTimeout:
		s.client.CanDo(name, limit(s.args[1])) // which is empty in CAN_DO
	case typeCantDo:
		s.client.CantDo(name)
	case typeResetAbilities:
		s.client.CantDoAny()
	}
	s.protocol.describe(s, func(a *about) {
		switch typ {
		case typeResetAbilities:
			a.functions = abilities{}
		case typeCantDo:
			a.functions.remove(name)
		default:
			a.functions.add(name)
		}
	})
}

// abilities are the functions that a worker can do, in the order in which it has
// said so. There may be very many, of which it adds and removes one at a time.
type abilities struct {
	names []string // with gaps, where at has another place for the name or none
	at    map[string]int
}

// add enters a function, if it is not there yet.
func (a *abilities) add(name string) {
	if _, ok := a.at[name]; ok {
		return
	}
	if a.at == nil {
		a.at = make(map[string]int)
	}
	a.at[name] = len(a.names)
	a.names = append(a.names, name)
}

// remove takes a function out, if it is there.
func (a *abilities) remove(name string) {
	delete(a.at, name)
	if len(a.names) <= 2*len(a.at)+16 {
		return
	}
	all := a.list()
	*a = abilities{}
	for i := len(all) - 1; i >= 0; i-- {
		a.add(all[i])
	}
}

// list returns them, the latest first.
func (a *abilities) list() []string {
	all := make([]string, 0, len(a.at))
	for i := len(a.names) - 1; i >= 0; i-- {
		if at, ok := a.at[a.names[i]]; ok && at == i {
			all = append(all, a.names[i])
		}
	}
	return all
}
