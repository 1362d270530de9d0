package gearman

// Which functions a worker can do.

// abilities serves the packets that change which functions a worker can do: CAN_DO,
// CAN_DO_TIMEOUT, CANT_DO and RESET_ABILITIES.
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
		s.client.CanDo(name, atoi(s.args[1])) // args[1] is empty in CAN_DO: no timeout
	case typeCantDo:
		s.client.CantDo(name)
	case typeResetAbilities:
		s.client.CantDoAny()
	}
	s.protocol.describe(s, func(d *description) {
		switch typ {
		case typeResetAbilities:
			d.functions = abilities{}
		case typeCantDo:
			d.functions.remove(name)
		default:
			d.functions.add(name)
		}
	})
}

// abilities are the functions that a worker can do, in the order in which it has named
// them. There may be very many, so adding or removing one must not take time for all.
type abilities struct {
	names []string       // names[i] counts only if at[names[i]] is i; else it was removed
	at    map[string]int // where in names each function is
}

// add adds a function, if it is not there yet.
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

// remove removes a function, if it is there, and rebuilds names when more than half of
// it has been removed.
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

// list returns the functions, the latest first.
func (a *abilities) list() []string {
	all := make([]string, 0, len(a.at))
	for i := len(a.names) - 1; i >= 0; i-- {
		if at, ok := a.at[a.names[i]]; ok && at == i {
			all = append(all, a.names[i])
		}
	}
	return all
}
