// Package hosts has the commands that show hosts, and that cordon, drain, accept and remove them.
package hosts
