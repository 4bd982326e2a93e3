// Package status has the commands that show a whole cluster: its coordinators, its changes and
// its audit.
package status
