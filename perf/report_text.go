package perf

// Reports for a terminal, and as Markdown.

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// WriteJSON writes everything that was measured, and for a comparison its tables.
func (r *Report) WriteJSON(w io.Writer) error {
	if !r.singleRun() {
		with := *r
		with.Entries = slices.Clone(r.Entries)
		for i := range with.Entries {
			with.Entries[i].Compared = r.compared(&with.Entries[i])
		}
		r = &with
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// singleRun reports whether each scenario was run once, so that there is nothing
// to compare.
func (r *Report) singleRun() bool { return r.Rounds == 1 && len(r.Servers) == 1 }

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for i := range r.Entries {
		e := &r.Entries[i]
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s\n%s\n\n", e.Scenario, e.About, indent(e.Config.Describe(), "  "))
		switch {
		case r.singleRun():
			for j := range e.Results {
				e.Results[j].text(&b)
			}
		case e.measured():
			r.table(&b, e)
		}
		for _, n := range r.notes(e, false) {
			fmt.Fprintf(&b, "  ! %s\n", strings.TrimSpace(indent(n, "    ")))
		}
	}
	if m := r.method(); m != "" && r.Measured() {
		fmt.Fprintf(&b, "\n%s\n", m)
	}
	if r.Interrupted {
		b.WriteString("interrupted\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// text writes one run in full.
func (r *Result) text(b *strings.Builder) {
	for i := range r.Loads {
		l := &r.Loads[i]
		if l.Name != "" {
			fmt.Fprintf(b, "  %s\n", l.Name)
		}
		fmt.Fprintf(b, "  %-12s %s ops/s, %s jobs/s, over %s s\n", "throughput", perSecond(l.AnswerRate), perSecond(l.JobRate), number(l.Seconds))
		if l.Server.RSS > 0 {
			fmt.Fprintf(b, "  %-12s %s µs of CPU per operation, %s µs per job, %.0f %% of a core; %s, at most %s\n", r.Server,
				number(l.Server.CPUPerAnswer), number(l.Server.CPUPerJob), 100*l.Server.Cores, mebibytes(l.Server.RSS), mebibytes(l.Server.Peak))
		}
		fmt.Fprintf(b, "  %-12s %s µs of CPU per operation, %.0f %% of a core; %s\n", "client", number(l.Client.CPUPerAnswer), 100*l.Client.Cores, plural(l.Threads, "thread"))
		t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(t, "  latency\tcount\tmean\tp50\tp90\tp99\tp99.9\tp99.99\tmax\t\n")
		for _, t0 := range l.Latency {
			fmt.Fprintf(t, "  %s\t%s\t", t0.Name, count(float64(t0.Count)))
			for _, v := range []float64{t0.Mean, t0.P50, t0.P90, t0.P99, t0.P999, t0.P9999, t0.Max} {
				fmt.Fprintf(t, "%s\t", micros(v))
			}
			fmt.Fprintln(t)
		}
		t.Flush()
		b.WriteByte('\n')
	}
	for _, f := range r.Figures {
		fmt.Fprintf(b, "  %s: %s %s\n", f.Name, number(f.Value), f.Unit)
	}
	if len(r.Figures) > 0 {
		b.WriteByte('\n')
	}
}

// header returns the names of a comparison's columns.
func (r *Report) header() []string {
	head := []string{""}
	for _, s := range r.Servers {
		head = append(head, s.Name)
	}
	for _, s := range r.Servers {
		if r.Baseline != "" && s.Name != r.Baseline {
			head = append(head, s.Name+" / "+r.Baseline)
		}
	}
	return head
}

// cells returns the cells of a row.
func (r *Report) cells(row *Row) []string {
	cells := []string{fmt.Sprintf("%s (%s)", row.Name, row.Unit)}
	for _, v := range row.Values {
		switch {
		case v.N == 0:
			cells = append(cells, "–")
		case v.N == 1:
			cells = append(cells, number(v.Median))
		default:
			cells = append(cells, fmt.Sprintf("%s (%s – %s)", number(v.Median), number(v.Least), number(v.Most)))
		}
	}
	for s, v := range row.Ratios {
		switch {
		case r.Baseline == "" || r.Servers[s].Name == r.Baseline:
		case v.N == 0:
			cells = append(cells, "–")
		case v.N == 1:
			cells = append(cells, fmt.Sprintf("%.2f ×", v.Median))
		default:
			cells = append(cells, fmt.Sprintf("%.2f × (%.2f – %.2f)", v.Median, v.Least, v.Most))
		}
	}
	return cells
}

// table writes a comparison: medians over the rounds, with the least and the
// most.
func (r *Report) table(b *strings.Builder, e *Entry) {
	compared := r.Rows(e)
	if len(compared) == 0 {
		return
	}
	rows, load := [][]string{r.header()}, ""
	for _, row := range compared {
		if row.Load != load {
			load = row.Load
			rows = append(rows, append([]string{loadName(load)}, make([]string, len(rows[0])-1)...))
		}
		rows = append(rows, r.cells(&row))
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString("  " + cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
	}
	b.WriteByte('\n')
}

// loadName is the heading for a load's rows in a table.
func loadName(load string) string {
	if load == "" {
		return "in all"
	}
	return load
}

// describeMachine is a line about what the figures were measured on.
func (r *Report) describeMachine() string {
	m := r.Machine
	return fmt.Sprintf("%s, %d cores, %.0f GiB, %s; %s", m.CPU, m.Cores, float64(m.Memory)/(1<<30), m.Kernel,
		r.Began.UTC().Format("2006-01-02 15:04 MST"))
}

// WriteMarkdown writes tables that can be pasted into a document.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(r.describeMachine()+". "+r.method()))
	for _, s := range r.Servers {
		if s.started() {
			fmt.Fprintf(&b, "- %s: `%s`\n", s.Name, strings.Join(s.Command, " "))
		}
	}
	if r.Command != "" {
		fmt.Fprintf(&b, "- measured with `%s`\n", r.Command)
	}
	for i := range r.Entries {
		e := &r.Entries[i]
		fmt.Fprintf(&b, "\n### %s\n\n%s: %s.\n\n", e.Scenario, e.About, e.Config.Describe())
		if e.measured() {
			r.markdownTable(&b, e)
		}
		for _, n := range r.notes(e, false) {
			fmt.Fprintf(&b, "\n- %s\n", indent(n, "  ")[2:])
		}
	}
	if r.Interrupted {
		b.WriteString("\nInterrupted.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) markdownTable(b *strings.Builder, e *Entry) {
	rows := r.Rows(e)
	if len(rows) == 0 {
		return
	}
	head := r.header()
	fmt.Fprintf(b, "%s|%s%s\n", markdownRow(head), " --- |", strings.Repeat(" ---: |", len(head)-1))
	load := ""
	for _, row := range rows {
		if row.Load != load {
			load = row.Load
			fmt.Fprintf(b, "| **%s** |%s\n", loadName(load), strings.Repeat(" |", len(head)-1))
		}
		b.WriteString(markdownRow(r.cells(&row)))
	}
}

// markdownRow returns a line of a table. Servers may have any names, so | is
// escaped.
func markdownRow(cells []string) string {
	var b strings.Builder
	b.WriteByte('|')
	for _, cell := range cells {
		b.WriteString(" " + strings.ReplaceAll(cell, "|", `\|`) + " |")
	}
	b.WriteByte('\n')
	return b.String()
}
