package perf

// Scenarios for servers that speak Gearman. A Gearman function is what other
// scenarios call a tube, so --tubes says how many there are.
//
//	gearman-foreground   each client has as many jobs under way as the depth
//	                     says. A worker asks with GRAB_JOB; on NO_JOB it sends
//	                     PRE_SLEEP and waits for NOOP; on a job, it sends the
//	                     result and the next GRAB_JOB in one write. An operation
//	                     is a round trip, SUBMIT_JOB to WORK_COMPLETE.
//	gearman-background   8 connections with 25 in flight each are 200 in
//	                     flight. An operation is a SUBMIT_JOB_BG that was
//	                     answered. So that the queue stays bounded, this goes in
//	                     rounds of as many jobs as --jobs says, and workers empty
//	                     it between them, outside of what is measured.
//	gearman-grab         the jobs are submitted before each round. An operation
//	                     is a job whose WORK_COMPLETE the server has read, as the
//	                     answer to the GRAB_JOB behind it shows. How many are
//	                     waiting matters: gearmand looks them up in lists, which
//	                     with 100,000 jobs are a hundred jobs long.
//
// Each job has another unique, so none is coalesced with another; the server has to
// find that out. It is as long as those that libgearman gives to jobs whose client
// names none, and with it the gearman tool and PHP's extension. Results of foreground
// jobs are as long as their workloads (gearman_packet.go); those of background jobs,
// which nobody gets, are empty.

func gearmanScenarios() []*Scenario {
	base := base.with(func(c *Config) { c.Unique = 36 })
	return []*Scenario{
		{Name: "gearman-foreground", About: "Gearman: from SUBMIT_JOB to WORK_COMPLETE, with workers that sleep", run: runForeground, Gearman: true,
			names:  [2]string{"", "round trip"},
			Config: base.with(func(c *Config) { c.Producers, c.Workers, c.LeastBody = 16, 16, headerMark })},
		{Name: "gearman-background", About: "Gearman: SUBMIT_JOB_BG alone, 200 in flight", run: runProduce, Gearman: true, puts: true,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Jobs = 8, 25, 50_000 })},
		{Name: "gearman-grab", About: "Gearman: GRAB_JOB and WORK_COMPLETE of jobs that were submitted before", run: runConsume, Gearman: true,
			Config: base.with(func(c *Config) { c.Connections, c.Depth, c.Jobs = 16, 1, 10_000 })},
	}
}

// gearmanPresets makes the presets of gearmanScenarios.
func gearmanPresets(preset func(name, of, about string, change func(*Config))) {
	preset("gearman-foreground-1", "gearman-foreground", "one client and one worker", func(c *Config) { c.Producers, c.Workers = 1, 1 })
	preset("gearman-foreground-deep", "gearman-foreground", "clients with 16 jobs under way", func(c *Config) { c.Depth = 16 })
	preset("gearman-background-1x200", "gearman-background", "200 in flight on one connection", func(c *Config) { c.Connections, c.Depth = 1, 200 })
	preset("gearman-grab-100k", "gearman-grab", "from among 100,000 jobs", func(c *Config) { c.Jobs = 100_000 })
	preset("gearman-grab-8x16", "gearman-grab", "workers that pipeline", func(c *Config) { c.Connections, c.Depth = 8, 16 })
}

func runForeground(s *session) error { return s.runPlan(s.foreground) }

// foreground is the load of pairs, with clients in place of producers: each waits
// for its own jobs.
func (s *session) foreground(name string, rate float64) plan {
	p := s.pairs(name, rate)
	p.timesHandoff = false
	client, worker := p.groups[0], p.groups[1]
	client.name, client.mix, client.counted = "client", always(scriptForeground), opResult
	client.repeats, client.starts = rate == 0, rate > 0
	worker.mix, worker.counted = always(scriptGrab), numOps
	return p
}
