//go:build linux

package linkis

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// values are parameters of a call of the driver.
type values map[string]any

// answer is what a call gave.
type answer map[string]any

// text is a field of it; empty if there is none.
func (a answer) text(field string) string {
	text, _ := a[field].(string)
	return text
}

// Ports of what there is twice if there are two managers: the first's bean is at driverPort, the
// second's next to it.
const (
	driverPort        = 17479
	secondManagerPort = 17477
)

// drive calls the driver in the manager's process. What the ResourceManager threw is in "error" and
// "message" of the answer.
func (w *world) drive(command string, query values) (answer, error) {
	var into answer
	err := w.call(command, query, &into)
	return into, err
}

func (w *world) call(command string, query values, into any) error {
	parameters := url.Values{}
	for name, value := range query {
		parameters.Set(name, fmt.Sprint(value))
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 4*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/%s?", w.driver, command)+parameters.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w: %.500s", command, err, text)
	}
	return nil
}

// ask is drive for a call that must not fail on its way; what the ResourceManager threw may be in
// the answer.
func (w *world) ask(command string, query values) answer {
	w.t.Helper()
	a, err := w.drive(command, query)
	if err != nil {
		w.t.Fatalf("%s: %v", command, err)
	}
	return a
}

// grant asks for one engine, which must be granted, and returns the ticket.
func (w *world) grant(query values) string {
	w.t.Helper()
	a := w.ask("request", query)
	ticket := a.text("ticket")
	if ticket == "" {
		w.t.Fatalf("request %v: %v", query, a)
	}
	return ticket
}

// figures are milliseconds.
type figures struct{ P50, P99, Max, Mean float64 }

// outcome is what a closed loop has counted.
type outcome struct {
	Cycles                          int
	PerSecond                       float64
	Granted, Over, Refused, Failed  int
	Peak                            int64 // bytes granted at the same time
	Request, Used, Release, Refusal figures
	// Held is from when to when each grant was held at least, on the machine's monotonic clock in
	// nanoseconds.
	Held           [][2]int64
	Said           map[string]int
	Error, Message string
}

func (o outcome) String() string {
	return fmt.Sprintf("%d cycles, %.1f/s; granted %d, %d of them over, peak %.2f GiB; refused %d, failed %d; request p50 %.1f p99 %.1f ms, used %.1f %.1f, release %.1f %.1f, refusal %.1f %.1f; %v",
		o.Cycles, o.PerSecond, o.Granted, o.Over, float64(o.Peak)/(1<<30), o.Refused, o.Failed,
		o.Request.P50, o.Request.P99, o.Used.P50, o.Used.P99, o.Release.P50, o.Release.P99, o.Refusal.P50, o.Refusal.P99, o.Said)
}

// peakOf is the most that several loops have held at the same time, of grants of one size.
func peakOf(each int64, loops ...outcome) (most int64) {
	type change struct{ at, by int64 }
	var changes []change
	for _, o := range loops {
		for _, held := range o.Held {
			changes = append(changes, change{held[0], each}, change{held[1], -each})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	var now int64
	for _, c := range changes {
		now += c.by
		most = max(most, now)
	}
	return most
}

// pauseOf is the longest time in which none of several loops was granted anything.
func pauseOf(loops ...outcome) (longest time.Duration) {
	var times []int64
	for _, o := range loops {
		for _, held := range o.Held {
			times = append(times, held[0])
		}
	}
	slices.Sort(times)
	for i := range len(times) - 1 {
		longest = max(longest, time.Duration(times[i+1]-times[i]))
	}
	return longest
}

// loop runs a closed loop in the manager's process.
func (w *world) loop(query values) outcome {
	w.t.Helper()
	var o outcome
	if err := w.call("run", query, &o); err != nil {
		w.t.Fatal(err)
	}
	if o.Error != "" {
		w.t.Fatalf("loop %v: %s: %s", query, o.Error, o.Message)
	}
	return o
}
