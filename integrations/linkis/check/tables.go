package check

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/bursar/bursar/resource/linkis"
)

const maxNamed = 5 // of those that are counted

func (r *reader) ecms(ctx context.Context) {
	const query = "SELECT l.label_value, s.max_resource, s.resourceType FROM linkis_cg_manager_label l" +
		" JOIN linkis_cg_manager_label_resource lr ON lr.label_id = l.id JOIN linkis_cg_manager_linkis_resources s ON s.id = lr.resource_id" +
		" WHERE l.label_key = 'emInstance' ORDER BY l.label_value"
	r.each(ctx, "linkis_cg_manager_linkis_resources", query, 3, func(row []string) {
		instance := instanceOf(row[0])
		kind, err := linkis.ParseType(row[2])
		if err == nil {
			size, err := linkis.Unmarshal(kind, []byte(row[1]))
			if err == nil {
				r.managers = append(r.managers, ECM{instance, size.Memory(), size.CPU() / 1000, size.Instances()})
				return
			}
		}
		r.findings = append(r.findings, Finding{Area: "ecm", Subject: instance, Now: "its resources cannot be read: type " + row[2], Bursar: "its agent says what it has", Attention: true})
	})
}

// instanceOf is the host:port in the value of an ECM's label, which Linkis writes as JSON; older
// versions wrote the name of the service and a dash in front of it.
func instanceOf(value string) string {
	var label struct {
		Instance string `json:"instance"`
	}
	if err := json.Unmarshal([]byte(value), &label); err == nil && label.Instance != "" {
		return label.Instance
	}
	return strings.TrimPrefix(value, "linkis-cg-engineconnmanager-")
}

// engines are those that run now: Bursar does not know their tickets.
func (r *reader) engines(ctx context.Context) {
	const query = "SELECT instance, identifier, mark FROM linkis_cg_manager_service_instance WHERE name = 'linkis-cg-engineconn' ORDER BY instance"
	var all, pidless []string
	r.each(ctx, "linkis_cg_manager_service_instance", query, 3, func(row []string) {
		all = append(all, row[0])
		if row[1] == "" && row[2] != "cluster" {
			pidless = append(pidless, row[0])
		}
	})
	if len(all) > 0 {
		r.findings = append(r.findings, Finding{
			Area: "engine", Subject: named(all), Now: fmt.Sprintf("%d run, granted by Linkis", len(all)), Attention: true,
			Bursar: "have no allocation, and Bursar does not count them: let them end before the change",
		})
	}
	if len(pidless) > 0 {
		r.findings = append(r.findings, Finding{
			Area: "engine", Subject: named(pidless), Now: fmt.Sprintf("%d have no pid", len(pidless)), Attention: true,
			Bursar: "an engine is measured and stopped by its pid: its call-back has not come",
		})
	}
}

func named(list []string) string {
	if len(list) > maxNamed {
		return strings.Join(list[:maxNamed], ", ") + fmt.Sprintf(" and %d more", len(list)-maxNamed)
	}
	return strings.Join(list, ", ")
}

func (r *reader) limits(ctx context.Context) {
	const query = "SELECT l.label_value, k.`key`, v.config_value, k.default_value FROM linkis_ps_configuration_config_value v" +
		" JOIN linkis_ps_configuration_config_key k ON k.id = v.config_key_id JOIN linkis_cg_manager_label l ON l.id = v.config_label_id" +
		" WHERE l.label_key = 'combined_userCreator_engineType' AND k.`key` LIKE 'wds.linkis.rm.%' ORDER BY l.label_value, k.`key`"
	r.each(ctx, "linkis_ps_configuration_config_value", query, 4, func(row []string) {
		who, key, value := row[0], row[1], cmpOr(row[2], row[3])
		user, creator, engine, version, ok := combined(who)
		if !ok {
			r.findings = append(r.findings, Finding{Area: "limit", Subject: who, Now: key + " " + value, Bursar: "not imported: want USER-CREATOR,ENGINE-VERSION", Attention: true})
			return
		}
		f := Finding{Area: "limit", Subject: fmt.Sprintf("user=%s,creator=%s,engineType=%s,engineVersion=%s", user, creator, engine, version), Now: key + " = " + value}
		f.Bursar, f.Attention = rule(key, value, r.millis)
		if value != "" && f.Bursar != "" {
			r.findings = append(r.findings, f)
		}
	})
}

func combined(label string) (user, creator, engine, version string, ok bool) {
	who, what, both := strings.Cut(label, ",")
	user, creator, first := strings.Cut(who, "-")
	engine, version, second := strings.Cut(what, "-")
	ok = both && first && second && user != "" && creator != "" && engine != "" && version != "" && !strings.ContainsAny(creator, "-") && !strings.Contains(version, ",")
	return user, creator, engine, version, ok
}

// rule names the quota rule that a key becomes in Bursar; empty: it is no limit. A core of Linkis
// is millis thousandths of a core.
func rule(key, value string, millis int64) (text string, attention bool) {
	bytes, isSize := bytesOf(value)
	count, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
	isCount := err == nil && count >= 0
	switch key {
	case "wds.linkis.rm.client.memory.max":
		text, attention = "quota rule: memory "+sizeText(bytes), !isSize
	case "wds.linkis.rm.client.core.max":
		text, attention = "quota rule: cpu "+coresText(count*millis), !isCount
	case "wds.linkis.rm.instance":
		text, attention = fmt.Sprintf("quota rule: instances %d", count), !isCount
	case "wds.linkis.rm.yarnqueue.memory.max":
		text, attention = "quota rule: memory in YARN queues "+sizeText(bytes), !isSize
	case "wds.linkis.rm.yarnqueue.cores.max":
		text, attention = fmt.Sprintf("quota rule: cpu in YARN queues %d", count), !isCount
	case "wds.linkis.rm.yarnqueue.instance.max":
		text = "no rule: Linkis shows it and does not enforce it"
	default:
		return "", false
	}
	if attention {
		text = "not imported: want a number that is not negative, such as 10 or 20G"
	}
	return text, attention
}

func (r *reader) tenants(ctx context.Context) {
	const query = "SELECT user, creator, tenant_value FROM linkis_cg_tenant_label_config WHERE is_valid = 'Y' ORDER BY user, creator"
	r.each(ctx, "linkis_cg_tenant_label_config", query, 3, func(row []string) {
		r.findings = append(r.findings, Finding{
			Area: "tenant", Subject: fmt.Sprintf("user=%s,creator=%s", row[0], row[1]), Now: "tenant " + row[2] + " chooses ECMs",
			Bursar: "the label tenant=" + row[2] + ", which can have a quota, too",
		})
	})
}

// providers tells the names and addresses of clusters; their configuration has passwords.
func (r *reader) providers(ctx context.Context) {
	const query = "SELECT resource_type, name, config FROM linkis_cg_rm_external_resource_provider ORDER BY resource_type, name"
	r.each(ctx, "linkis_cg_rm_external_resource_provider", query, 3, func(row []string) {
		var config struct {
			Address string `json:"rmWebAddress"`
		}
		f := Finding{Area: "queue", Subject: row[0] + ":" + row[1], Attention: true}
		if err := json.Unmarshal([]byte(row[2]), &config); err != nil || strings.Contains(config.Address, "@") {
			config.Address = "an address that cannot be shown"
		}
		f.Now = "read at " + cmpOr(config.Address, "no address")
		if strings.EqualFold(row[0], "yarn") {
			f.Bursar = "a provider of the coordinator: bursar provider set yarn:" + row[1]
		} else {
			f.Bursar = "no provider of this kind is built in: one that runs a command can read it"
		}
		r.findings = append(r.findings, f)
	})
}
