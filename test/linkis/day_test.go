//go:build linux

package linkis

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// endpoints are what Linkis's pages and scripts call about engines and their resources.
func endpoints(ticket string) []struct {
	method, path string
	body         any
} {
	return []struct {
		method, path string
		body         any
	}{
		{http.MethodGet, "linkisManager/listAllEMs", nil},
		{http.MethodGet, "linkisManager/listAllECMHealthyStatus", nil},
		{http.MethodGet, "linkisManager/rm/engineType", nil},
		{http.MethodGet, "linkisManager/rm/allUserResource?page=1&size=100", nil},
		{http.MethodGet, "linkisManager/rm/get-user-resource?username=hadoop&creator=IDE&engineType=shell-1", nil},
		{http.MethodPost, "linkisManager/rm/userresources", map[string]any{}},
		{http.MethodPost, "linkisManager/rm/engines", map[string]any{}},
		{http.MethodPost, "linkisManager/rm/applicationlist", map[string]any{"userCreator": "hadoop-IDE", "engineType": "shell-1"}},
		{http.MethodGet, "linkisManager/ecinfo/get?ticketid=" + ticket, nil},
		{http.MethodGet, "linkisManager/ecinfo/ecrHistoryList?pageNow=1&pageSize=50", nil},
		{http.MethodPost, "linkisManager/ecinfo/ecList", map[string]any{"creators": []string{"IDE"}}},
	}
}

// picture is what all endpoints said at one time of the day: by "endpoint field" its value.
type picture map[string]string

// TestDay plays the same day with stock Linkis and with the adapter, and compares what Linkis's
// API says, field by field. The table goes to bin/linkis-rest.txt.
func TestDay(t *testing.T) {
	w := newWorld(t, options{hosts: 1})
	w.startManager(stock, nil)
	w.manager.listed()
	w.startECM(w.hosts[0])
	plain := w.day()
	w.db.forgetEngines()
	w.startManager(enforced, nil)
	w.projected = true
	adapted := w.day()
	var lines []string
	same, meant := 0, 0
	for _, when := range slices.Sorted(maps.Keys(plain)) {
		all := maps.Clone(plain[when])
		maps.Copy(all, adapted[when])
		for _, field := range slices.Sorted(maps.Keys(all)) {
			a, b := plain[when][field], adapted[when][field]
			if a == b {
				same++
				continue
			}
			// docs/linkis.md, in the table of endpoints: what the ECM has registered as its max.
			if name, ok := strings.CutPrefix(field, "listAllEMs .EMs[0].expectedResource."); ok && a == "0" && b == plain[when]["listAllEMs .EMs[0].maxResource."+name] {
				meant++
				continue
			}
			lines = append(lines, fmt.Sprintf("%-22s %-80s stock %-30.120q adapter %.120q", when, field, a, b))
		}
	}
	text := fmt.Sprintf("%d fields are the same, %d differ as they should, %d otherwise\n%s\n", same, meant, len(lines), strings.Join(lines, "\n"))
	t.Log(text)
	if err := os.WriteFile(filepath.Join(w.here.root, "bin", "linkis-rest.txt"), []byte(text), 0o644); err != nil {
		t.Error(err)
	}
	for _, line := range lines {
		t.Errorf("another answer: %s", line)
	}
	if same < 500 || meant != 15 {
		t.Errorf("%d fields are the same, %d differ as they should: want 500 or more, and 15", same, meant)
	}
	for name, day := range map[string]map[string]picture{"stock": plain, "adapter": adapted} {
		happened(t, name, day)
	}
}

// happened fails unless the day's events are in what the API said: else nothing is compared.
func happened(t *testing.T, name string, day map[string]picture) {
	t.Helper()
	const one, two = "2.68435456e+08", "5.36870912e+08"
	for _, want := range []struct{ when, field, value string }{
		{"1 nothing", "listAllEMs .EMs[0].usedResource.memory", "0"},
		{"1 nothing", "listAllEMs .EMs[0].lockedResource.memory", "0"},
		{"2 one is asked for", "listAllEMs .EMs[0].lockedResource.memory", one},
		{"3 it is used", "listAllEMs .EMs[0].lockedResource.memory", "0"},
		{"3 it is used", "listAllEMs .EMs[0].usedResource.memory", one},
		{"4 two are used", "listAllEMs .EMs[0].usedResource.memory", two},
		{"5 both are back", "listAllEMs .EMs[0].usedResource.memory", "0"},
		{"2 one is asked for", "ecinfo/get .ecResourceInfoRecord.status", "Starting"},
		{"3 it is used", "ecinfo/get .ecResourceInfoRecord.status", "Running"},
		{"5 both are back", "ecinfo/get .ecResourceInfoRecord.status", "Success"},
		{"5 both are back", "ecinfo/get .ecResourceInfoRecord.releaseTimes", "1"},
	} {
		if got := day[want.when][want.field]; got != want.value {
			t.Errorf("%s, %s: %s is %q: want %q", name, want.when, want.field, got, want.value)
		}
	}
}

// day is: nothing, an engine asked for, used, a second one, both given back.
func (w *world) day() map[string]picture {
	w.t.Helper()
	pictures := make(map[string]picture)
	query := values{"ecm": w.hosts[0].instance(), "user": "hadoop", "memory": 256 << 20}
	look := func(when, ticket string) {
		w.t.Helper()
		pictures[when] = w.settled(ticket)
	}
	look("1 nothing", "none")
	first := w.grant(query)
	look("2 one is asked for", first)
	query["ticket"] = first
	w.ask("used", query)
	look("3 it is used", first)
	delete(query, "ticket")
	second := w.grant(query)
	query["ticket"] = second
	w.ask("used", query)
	look("4 two are used", second)
	w.ask("release", query)
	query["ticket"] = first
	w.ask("release", query)
	look("5 both are back", first)
	return pictures
}

// settled is the picture once the ECM has told of itself and, with the adapter, Linkis's row of it
// is in step with Bursar's ledger.
func (w *world) settled(ticket string) picture {
	w.t.Helper()
	eventually(w.t, "the ECM has told of itself", func() error {
		m, err := w.rest(w.manager, http.MethodGet, "linkisManager/listAllEMs", nil, 30*time.Second)
		if err != nil {
			return err
		}
		p := make(picture)
		flatten(p, "", m.Data)
		if p[".EMs[0].maxResource.memory"] == "" || p[".EMs[0].maxMemory"] == "<nil>" {
			return fmt.Errorf("%v", p)
		}
		return nil
	})
	if w.projected {
		eventually(w.t, "the ECM's row is in step with Bursar", w.inStep)
	}
	return w.look(ticket)
}

func (w *world) inStep() error {
	row, err := w.ecmRow(w.hosts[0])
	if err != nil {
		return err
	}
	var used, locked struct{ Memory int64 }
	if err := errors.Join(json.Unmarshal([]byte(row.used), &used), json.Unmarshal([]byte(row.locked), &locked)); err != nil {
		return fmt.Errorf("%+v: %w", row, err)
	}
	answer, err := w.bursar.Hosts().Get(w.t.Context(), &bursarv1.HostServiceGetRequest{Id: w.hosts[0].name})
	if err != nil {
		return err
	}
	account := answer.GetHost().GetAccount()
	if used.Memory != account.GetUsed().GetMemoryBytes() || locked.Memory != account.GetReserved().GetMemoryBytes() {
		return fmt.Errorf("%+v, Bursar has %v", row, account)
	}
	return nil
}

// What is another each time: numbers of rows, times, tickets, the machine's memory.
var (
	changing = regexp.MustCompile(`(?i)(time|date|\.id|Id|heartbeat|duration|systemLeftMemory|usedMemory)$`)
	tickets  = regexp.MustCompile(`\b([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-z]{13})\b`)
)

func (w *world) look(ticket string) picture {
	w.t.Helper()
	p := make(picture)
	for _, e := range endpoints(ticket) {
		m, err := w.rest(w.manager, e.method, e.path, e.body, 30*time.Second)
		if err != nil {
			w.t.Fatal(err)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(e.path, "linkisManager/"), "?")
		p[name+" .status "] = fmt.Sprint(m.Status)
		p[name+" .message "] = tickets.ReplaceAllString(m.Message, "TICKET")
		flatten(p, name+" ", m.Data)
	}
	return p
}

func flatten(into picture, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			flatten(into, path+"."+name, inner)
		}
	case []any:
		into[path+".length"] = fmt.Sprint(len(v))
		for i, inner := range v {
			flatten(into, fmt.Sprintf("%s[%d]", path, i), inner)
		}
	default:
		if text := fmt.Sprint(v); changing.MatchString(path) {
			into[path] = "(changes)"
		} else {
			into[path] = tickets.ReplaceAllString(text, "TICKET")
		}
	}
}
