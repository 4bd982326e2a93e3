// Package status has the commands that show a whole cluster: its coordinators, its changes, its audit.
package status
