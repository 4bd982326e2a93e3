package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/render"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// attack does to a terminal what it can: it sets the title and colours, in seven bits and in
// eight, reverses the order of characters, and begins a new line.
const attack = "a\x1b]0;title\x07\x1b[31m\u009b32m\u202eb\r\nforged\x7f\u2028\u2066c"

// attacker answers every call with attack in every text of the answer.
type attacker struct {
	t *testing.T
	// code is the code of an error to answer with; empty: an answer.
	code string
}

func (s attacker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	service, method, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + method))
	descriptor, ok := found.(protoreflect.MethodDescriptor)
	if err != nil || !ok {
		s.t.Errorf("called %s: %v", r.URL.Path, err)
		http.NotFound(w, r)
		return
	}
	stream := descriptor.IsStreamingServer()
	if s.code != "" {
		s.refuse(w, stream)
		return
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.Output().FullName())
	if err != nil {
		s.t.Error(err)
		return
	}
	answer := kind.New()
	poison(answer, 0)
	body, err := proto.Marshal(answer.Interface())
	if err != nil {
		s.t.Error(err)
	}
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	if stream {
		_, _ = w.Write(envelope(0, body))
		body = envelope(2, []byte("{}"))
	}
	_, _ = w.Write(body)
}

func (s attacker) refuse(w http.ResponseWriter, stream bool) {
	details := []map[string]string{}
	for _, detail := range []proto.Message{&bursarv1.InvalidField{}, &bursarv1.InsufficientResources{}} {
		poison(detail.ProtoReflect(), 0)
		value, err := proto.Marshal(detail)
		if err != nil {
			s.t.Error(err)
		}
		details = append(details, map[string]string{"type": string(detail.ProtoReflect().Descriptor().FullName()), "value": base64.RawStdEncoding.EncodeToString(value)})
	}
	if s.code != "invalid_argument" && s.code != "resource_exhausted" {
		details = nil
	}
	fault := map[string]any{"code": s.code, "message": "released (" + attack + ")", "details": details}
	if stream {
		text, _ := json.Marshal(map[string]any{"error": fault})
		w.Header().Set("Content-Type", "application/connect+proto")
		_, _ = w.Write(envelope(2, text))
		return
	}
	text, _ := json.Marshal(fault)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusConflict)
	_, _ = w.Write(text)
}

// envelope is a message of a stream: flags, length, content.
func envelope(flags byte, content []byte) []byte {
	head := append([]byte{flags}, binary.BigEndian.AppendUint32(nil, uint32(len(content)))...)
	return append(head, content...)
}

// poison fills a message: texts with the attack, lists with one value. Of fields that exclude each
// other it sets the first.
func poison(message protoreflect.Message, depth int) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if depth > 6 || field.Name() == "next_page_token" || field.ContainingOneof() != nil && message.WhichOneof(field.ContainingOneof()) != nil {
			continue
		}
		switch {
		case field.IsMap():
			key := protoreflect.ValueOfString(attack).MapKey()
			if field.MapValue().Kind() == protoreflect.StringKind {
				message.Mutable(field).Map().Set(key, protoreflect.ValueOfString(attack))
			}
			if name := "user"; strings.Contains(string(field.Name()), "labels") || field.Name() == "selector" {
				message.Mutable(field).Map().Set(protoreflect.ValueOfString(name).MapKey(), protoreflect.ValueOfString(attack))
			}
		case field.IsList() && field.Message() != nil:
			poison(message.Mutable(field).List().AppendMutable().Message(), depth+1)
		case field.IsList() && field.Kind() == protoreflect.StringKind:
			message.Mutable(field).List().Append(protoreflect.ValueOfString(attack))
		case field.IsList():
		case field.Message() != nil && field.Message().FullName() == "google.protobuf.Timestamp":
			message.Mutable(field).Message().Set(field.Message().Fields().ByName("seconds"), protoreflect.ValueOfInt64(time.Now().Unix()))
		case field.Message() != nil:
			poison(message.Mutable(field).Message(), depth+1)
		case field.Kind() == protoreflect.StringKind:
			message.Set(field, protoreflect.ValueOfString(attack))
		case field.Kind() == protoreflect.EnumKind:
			message.Set(field, protoreflect.ValueOfEnum(1))
		}
	}
}

// printing are the commands that print what servers say, each with its arguments; nil: it calls no
// server, or is one.
func printing(dir string) map[string][]string {
	const id = "0000000000001"
	quotas := filepath.Join(dir, "quotas.yaml")
	return map[string][]string{
		"run": {"-m", "1MiB", "-l", "user=a", "--wait", "3s", "--", "true"}, "allocate": {"-m", "1MiB", "-l", "user=a"}, "confirm": {id, "--pid", "2"}, "release": {id}, "cancel": {id}, "amend": {id, "--wait", "1h"},
		"renew": {id}, "resize": {id, "-m", "1MiB"}, "stop": {id}, "explain": {id}, "status": {}, "hosts": {}, "allocations": {}, "quotas": {}, "queues": {}, "providers": {},
		"submit": {"-m", "1MiB", "-l", "user=a", "--", "true"}, "wait": {id}, "logs": {id, "--stderr"}, "signal": {id},
		"watch": {}, "audit": {}, "quota set": {"user=a", "--memory", "1GiB"}, "quota apply": {"-f", quotas}, "quota delete": {"user=a"},
		"provider set": {"yarn:a", "addresses=http://rm:8088"}, "provider check": {"yarn:a"}, "queues check": {}, "provider delete": {"yarn:a"},
		"host cordon": {"a"}, "host uncordon": {"a"}, "host drain": {"a"}, "host accept": {"a"}, "host remove": {"a"},

		"queues decode": nil, "token create": nil, "token list": nil, "token revoke": nil, "store copy": nil, "store info": nil, "store epoch": nil, "store set-aside": nil, "dev": nil, "coordinator": nil, "coordinator migrate": nil, "agent": nil,
		"version": nil, "linkis check": nil, // what its database says: TestNothingInLinkissTablesMovesTheCursor
	}
}

// quiet reports whether a command shows nothing that a server says.
func quiet(name string) bool {
	return slices.Contains([]string{"audit", "run", "logs", "signal", "quota delete", "provider delete", "host remove"}, name)
}

// leaves are the commands that do something, by their names after the program's.
func leaves(cmd *cobra.Command) (names []string) {
	for _, child := range cmd.Commands() {
		names = append(names, leaves(child)...)
	}
	if cmd.Runnable() && !cmd.HasSubCommands() || cmd.Name() == "coordinator" || cmd.Name() == "queues" {
		names = append(names, strings.TrimPrefix(cmd.CommandPath(), "bursar "))
	}
	return names
}

func TestNothingThatAServerSaysMovesTheCursor(t *testing.T) {
	dir := t.TempDir()
	writeConfig(t, filepath.Join(dir, "quotas.yaml"), "quotas:\n- {selector: {user: a}, limit: {memory: 1GiB}}\n")
	calls := printing(dir)
	commands := leaves(newRoot(cmdline.New(cmdline.Streams{}, version)))
	for name := range calls {
		if !slices.Contains(commands, name) {
			t.Errorf("there is no command %s", name)
		}
	}
	for _, name := range commands {
		if _, listed := calls[name]; !listed && !slices.ContainsFunc(topics(), func(topic *cobra.Command) bool { return topic.Name() == name }) {
			t.Errorf("bursar %s is not called here", name)
		}
	}
	for _, code := range []string{"", "failed_precondition", "invalid_argument", "resource_exhausted", "not_found"} {
		server := httptest.NewServer(attacker{t, code})
		t.Cleanup(server.Close)
		t.Setenv("BURSAR_ADDR", server.URL)
		t.Setenv("BURSAR_AGENT", server.URL)
		for name, args := range calls {
			for _, form := range []string{"table", "wide", "json"} {
				if args == nil {
					continue
				}
				t.Run(fmt.Sprint(code, " ", name, " ", form), func(t *testing.T) {
					printed := outputOf(t, dir, append(append(strings.Fields(name), "-o", form), args...))
					if code == "" && !strings.Contains(printed["out"]+printed["err"], "forged") && !quiet(name) {
						t.Errorf("it shows nothing: %q", printed)
					}
					for _, stream := range []string{"out", "err"} {
						text := printed[stream]
						for line := range strings.SplitSeq(text, "\n") {
							if plain := strings.ReplaceAll(line, "\t", ""); render.Printable(plain) != plain || strings.HasPrefix(line, "forged") {
								t.Errorf("std%s: %q", stream, line)
							}
						}
					}
					if out := printed["out"]; form == "json" && out != "" && strings.HasPrefix(out, "{") {
						decoder := json.NewDecoder(strings.NewReader(out))
						var message map[string]any
						if err := decoder.Decode(&message); err != nil {
							t.Errorf("%v: %s", err, out)
						}
						if text, _ := json.Marshal(message); strings.Contains(out, "forged") && !strings.Contains(string(text), "\u009b32m\u202eb") {
							t.Errorf("JSON does not say what the server did: %s", text)
						}
					}
				})
			}
		}
	}
}

// outputOf runs a command line in this process and returns what it printed.
func outputOf(t *testing.T, dir string, args []string) map[string]string {
	t.Helper()
	printed := make(map[string]string)
	open := func(stream string) *os.File {
		file, err := os.CreateTemp(dir, stream)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	in, out, err := open("in"), open("out"), open("err")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // a watch goes on
	defer cancel()
	execute(ctx, args, cmdline.Streams{In: in, Out: out, Err: err})
	for stream, file := range map[string]*os.File{"out": out, "err": err} {
		text, readErr := os.ReadFile(file.Name())
		if readErr != nil {
			t.Fatal(readErr)
		}
		printed[stream] = string(text)
	}
	return printed
}
