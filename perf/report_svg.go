package perf

// Plots, drawn as SVG that stands in a page.

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

const (
	plotWidth, plotHeight = 560, 300
	marginLeft            = 74
	marginRight           = 34
	marginTop             = 10
	marginBottom          = 40
	maxCurvePoints        = 400 // points
)

// An axis maps values to pixels.
type axis struct {
	least, most float64
	log         bool
	from, to    float64 // pixels
}

func (a axis) at(v float64) float64 {
	least, most := a.least, a.most
	if a.log {
		v, least, most = math.Log(max(v, a.least)), math.Log(least), math.Log(most)
	}
	if most <= least {
		return a.from
	}
	return a.from + (v-least)/(most-least)*(a.to-a.from)
}

// ticks returns round values along the axis.
func (a axis) ticks() (at []float64) {
	if a.log {
		for v := math.Pow(10, math.Floor(math.Log10(a.least))); v <= a.most*1.001; v *= 10 {
			for _, m := range []float64{1, 2, 5} {
				if t := v * m; t >= a.least*0.999 && t <= a.most*1.001 && (m == 1 || a.most/a.least < 50) {
					at = append(at, t)
				}
			}
		}
		return at
	}
	step := math.Pow(10, math.Floor(math.Log10((a.most-a.least)/4)))
	for _, m := range []float64{1, 2, 5, 10} {
		if (a.most-a.least)/(step*m) <= 5 {
			step *= m
			break
		}
	}
	if !(step > 0) || math.IsInf(step, 0) {
		return nil
	}
	for v := math.Ceil(a.least/step) * step; v <= a.most+step/1e3; v += step {
		at = append(at, v)
	}
	return at
}

// tick formats a round number for an axis.
func tick(v float64) string {
	if v >= 1000 {
		return count(v)
	}
	return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
}

// tickMicros formats a round number of microseconds.
func tickMicros(us float64) string {
	switch {
	case us >= 1e6:
		return tick(us/1e6) + " s"
	case us >= 1e3:
		return tick(us/1e3) + " ms"
	}
	return tick(us) + " µs"
}

// A curve is a line of a plot.
type curve struct {
	name   string
	color  int // of the server
	dash   int // of the load
	points [][2]float64
}

// A drawing collects SVG.
type drawing struct{ strings.Builder }

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(d, format, args...) }

func (d *drawing) begin(title string) {
	d.printf(`<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, plotWidth, plotHeight, html.EscapeString(title))
}

func (d *drawing) text(x, y float64, anchor, text string) {
	d.printf(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, html.EscapeString(text))
}

// gridY draws lines across for the ticks of y.
func (d *drawing) gridY(y axis, label func(float64) string) {
	for _, v := range y.ticks() {
		d.printf(`<path class="grid" d="M%d %.1fH%d"/>`, marginLeft, y.at(v), plotWidth-marginRight)
		d.text(marginLeft-6, y.at(v)+4, "end", label(v))
	}
}

// lines draws the curves.
func (d *drawing) lines(x, y axis, curves []curve) {
	for _, c := range curves {
		var path strings.Builder
		step := max(1, len(c.points)/maxCurvePoints)
		for i := 0; i < len(c.points); i += step {
			fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[i == 0], x.at(c.points[i][0]), y.at(c.points[i][1]))
		}
		d.printf(`<path class="line s%d d%d" d="%s"><title>%s</title></path>`, c.color%colors, c.dash%dashes, path.String(), html.EscapeString(c.name))
	}
}

// How many colours and dashes page.html has.
const colors, dashes = 6, 3

// extent returns the least and the largest y of curves.
func extent(curves []curve) (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for _, c := range curves {
		for _, p := range c.points {
			least, most = min(least, p[1]), max(most, p[1])
		}
	}
	return least, most
}

// plotPercentiles draws latencies by percentile: to the right, each step halves
// the share of slower ones.
func plotPercentiles(curves []curve) string {
	least, most := extent(curves)
	if len(curves) == 0 || most <= 0 {
		return ""
	}
	x := axis{least: 1, most: math.Exp2(float64(len(Quantiles) - 1)), log: true, from: marginLeft, to: plotWidth - marginRight}
	y := axis{least: max(least, 1) / 1.2, most: most * 1.2, log: true, from: plotHeight - marginBottom, to: marginTop}
	var d drawing
	d.begin("latency by percentile")
	d.gridY(y, tickMicros)
	for _, t := range []struct {
		slower float64
		label  string
	}{{0.5, "50 %"}, {0.1, "90 %"}, {0.01, "99 %"}, {1e-3, "99.9 %"}, {1e-4, "99.99 %"}, {1e-5, "99.999 %"}, {1e-6, "99.9999 %"}} {
		if at := x.at(1 / t.slower); at <= plotWidth-marginRight {
			d.printf(`<path class="grid" d="M%.1f %dV%d"/>`, at, marginTop, plotHeight-marginBottom)
			d.text(at, plotHeight-marginBottom+16, "middle", t.label)
		}
	}
	d.text(plotWidth/2, plotHeight-6, "middle", "percentile")
	d.lines(x, y, curves)
	return d.String() + "</svg>"
}

// plotSeries draws a rate per second over time.
func plotSeries(curves []curve) string {
	_, most := extent(curves)
	last := 0.0
	for _, c := range curves {
		if n := len(c.points); n > 0 {
			last = max(last, c.points[n-1][0])
		}
	}
	if last <= 0 || most <= 0 {
		return ""
	}
	x := axis{least: 0, most: last, from: marginLeft, to: plotWidth - marginRight}
	y := axis{least: 0, most: most * 1.05, from: plotHeight - marginBottom, to: marginTop}
	var d drawing
	d.begin("throughput over time")
	d.gridY(y, tick)
	for _, v := range x.ticks() {
		d.text(x.at(v), plotHeight-marginBottom+16, "middle", tick(v))
	}
	d.text(plotWidth/2, plotHeight-6, "middle", "seconds")
	d.lines(x, y, curves)
	return d.String() + "</svg>"
}

// A bar is a median and the rounds that it is the median of.
type bar struct {
	name   string
	color  int
	spread Spread
	rounds []float64
}

// plotBars draws horizontal bars, with a dot for each round.
func plotBars(title string, bars []bar) string {
	most := 0.0
	for _, b := range bars {
		most = max(most, b.spread.Most)
	}
	if most <= 0 {
		return ""
	}
	const row, thick, right = 44, 18, 90 // right is for the number
	height := len(bars) * row
	x := axis{least: 0, most: most, from: 0, to: plotWidth - right}
	var d drawing
	d.printf(`<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, plotWidth, height, html.EscapeString(title))
	for i, b := range bars {
		y := float64(i*row + 20)
		d.text(0, y-5, "start", b.name)
		d.printf(`<rect class="bar s%d" x="0" y="%.0f" width="%.1f" height="%d" rx="2"/>`, b.color%colors, y, x.at(b.spread.Median), thick)
		if len(b.rounds) > 1 {
			for _, v := range b.rounds {
				d.printf(`<circle class="dot" cx="%.1f" cy="%.1f" r="3"><title>%s</title></circle>`, x.at(v), y+thick/2, html.EscapeString(number(v)))
			}
		}
		d.text(x.at(b.spread.Most)+8, y+thick/2+5, "start", number(b.spread.Median))
	}
	return d.String() + "</svg>"
}
