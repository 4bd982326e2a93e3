package cmdline

import "github.com/spf13/cobra"

// The groups of commands in the help text.
const (
	GroupUse     = "use"
	GroupLook    = "look"
	GroupOperate = "operate"
	GroupServe   = "serve"
)

// Groups returns the groups with their titles, in the order of the help text.
func Groups() []*cobra.Group {
	return []*cobra.Group{
		{ID: GroupUse, Title: "To run something:"},
		{ID: GroupLook, Title: "To see what is going on:"},
		{ID: GroupOperate, Title: "To set limits and look after hosts and clusters:"},
		{ID: GroupServe, Title: "To serve:"},
	}
}

// InGroup puts commands into a group, and returns them.
func InGroup(group string, commands ...*cobra.Command) []*cobra.Command {
	for _, command := range commands {
		command.GroupID = group
	}
	return commands
}
