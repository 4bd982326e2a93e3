package yarn

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/bursar/bursar/resource"
)

// row is one line of an answer key: the figures of a queue in a partition, by column, as text.
// Missing figures are empty.
type row map[string]string

// rowOf converts the decoder's entry to a row.
func rowOf(e Entry) row {
	r := row{"path": e.Path, "partition": e.Partition, "state": e.State}
	putVector(r, "effMin", e.Guaranteed)
	putVector(r, "max", e.Limit)
	putVector(r, "used", e.Used)
	for column, figure := range map[string]*float64{"absCapPct": e.AbsoluteCapacity, "absMaxPct": e.AbsoluteMaxCapacity} {
		if figure != nil {
			r[column] = strconv.FormatFloat(*figure, 'g', -1, 64)
		}
	}
	for column, n := range map[string]*int32{
		"numApps": e.Applications, "active": e.Active, "pending": e.Pending, "maxApps": e.MaxApplications,
	} {
		if n != nil {
			r[column] = strconv.Itoa(int(*n))
		}
	}
	return r
}

func putVector(r row, column string, v *resource.Vector) {
	if v == nil {
		return
	}
	if bytes, set := v.Get(resource.Memory); set {
		r[column+"MB"] = strconv.FormatInt(bytes>>20, 10)
	}
	if millis, set := v.Get(resource.CPU); set {
		r[column+"VC"] = strconv.FormatInt(millis/1000, 10)
	}
}

// walk is a second reader: it reads a whole answer into memory, by Hadoop's documentation and
// without any code of the decoder. It does not support repeated keys, which encoding/json drops.
func walk(t *testing.T, body []byte) []row {
	t.Helper()
	var answer struct {
		Scheduler struct {
			SchedulerInfo map[string]any `json:"schedulerInfo"`
		} `json:"scheduler"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatal(err)
	}
	info := answer.Scheduler.SchedulerInfo
	switch info["type"] {
	case "capacityScheduler":
		return walkCapacity(info, "")
	case "fairScheduler":
		return walkFair(object(info["rootQueue"]))
	default:
		return []row{{
			"path": "root.default", "partition": "", "state": plain(info["qstate"]),
			"maxMB": plain(info["totalNodeCapacity"]), "usedMB": plain(info["usedNodeCapacity"]),
		}}
	}
}

func walkCapacity(q map[string]any, parent string) []row {
	path := strings.TrimPrefix(parent+"."+plain(q["queueName"]), ".")
	used := map[string]any{"": q["resourcesUsed"]}
	for _, u := range elements(q["resources"], "resourceUsagesByPartition") {
		used[plain(u["partitionName"])] = u["used"]
	}
	list := elements(q["capacities"], "queueCapacitiesByPartition")
	if list == nil {
		list = []map[string]any{{
			"absoluteCapacity": q["absoluteCapacity"], "absoluteMaxCapacity": q["absoluteMaxCapacity"],
			"effectiveMaxResource": q["maxEffectiveCapacity"], "effectiveMinResource": q["minEffectiveCapacity"],
		}}
	}
	var rows []row
	for _, c := range list {
		r := row{
			"path": path, "partition": plain(c["partitionName"]), "state": plain(q["state"]),
			"absCapPct": plain(c["absoluteCapacity"]), "absMaxPct": plain(c["absoluteMaxCapacity"]),
			"numApps": plain(q["numApplications"]), "active": plain(q["numActiveApplications"]),
			"pending": plain(q["numPendingApplications"]), "maxApps": plain(q["maxApplications"]),
		}
		putPlain(r, "max", c["effectiveMaxResource"])
		putPlain(r, "effMin", c["effectiveMinResource"])
		putPlain(r, "used", used[r["partition"]])
		rows = append(rows, r)
	}
	for _, child := range elements(q["queues"], "queue") {
		rows = append(rows, walkCapacity(child, path)...)
	}
	return rows
}

func walkFair(q map[string]any) []row {
	r := row{
		"path": plain(q["queueName"]), "partition": "",
		"active": plain(q["numActiveApps"]), "pending": plain(q["numPendingApps"]), "maxApps": plain(q["maxApps"]),
	}
	putPlain(r, "max", q["maxResources"])
	putPlain(r, "effMin", q["minResources"])
	putPlain(r, "used", q["usedResources"])
	rows := []row{r}
	children := elements(q["childQueues"], "queue")
	if list, old := q["childQueues"].([]any); old {
		for _, child := range list {
			children = append(children, object(child))
		}
	} else if one, old := q["childQueues"].(map[string]any); old && one["queueName"] != nil {
		children = append(children, one)
	}
	for _, child := range children {
		rows = append(rows, walkFair(child)...)
	}
	return rows
}

// elements returns the list, or the single element in its place, in a field of an object.
func elements(of any, name string) []map[string]any {
	var list []map[string]any
	switch value := object(of)[name].(type) {
	case []any:
		for _, element := range value {
			list = append(list, object(element))
		}
	case map[string]any:
		list = append(list, value)
	}
	return list
}

// object returns nil for a value that is no object.
func object(value any) map[string]any {
	fields, _ := value.(map[string]any)
	return fields
}

func putPlain(r row, column string, value any) {
	if fields := object(value); fields != nil {
		r[column+"MB"], r[column+"VC"] = plain(fields["memory"]), plain(fields["vCores"])
	}
}

func plain(value any) string {
	switch value := value.(type) {
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	case string:
		return value
	default:
		return ""
	}
}

// fromXML converts an answer in XML to the values that encoding/json produces, with a single
// element for every list of one, and every number quoted. No JSON fixture has this form.
func fromXML(t *testing.T, r io.Reader) map[string]any {
	t.Helper()
	d := xml.NewDecoder(r)
	for {
		token, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		if start, is := token.(xml.StartElement); is {
			return map[string]any{start.Name.Local: element(t, d, start)}
		}
	}
}

func element(t *testing.T, d *xml.Decoder, start xml.StartElement) any {
	t.Helper()
	fields, text := map[string]any{}, ""
	for _, a := range start.Attr {
		if a.Name.Local == "type" {
			fields["type"] = a.Value
		}
	}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			t.Fatal("the XML breaks off")
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			name, child := token.Name.Local, element(t, d, token)
			switch before := fields[name].(type) {
			case nil:
				fields[name] = child
			case []any:
				fields[name] = append(before, child)
			default:
				fields[name] = []any{before, child}
			}
		case xml.CharData:
			text += string(token)
		case xml.EndElement:
			if len(fields) == 0 {
				return strings.TrimSpace(text)
			}
			return fields
		}
	}
}
