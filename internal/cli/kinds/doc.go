// Package kinds lists the kinds of clusters that this program can read.
package kinds
