// Package queues has the commands on the clusters next to Bursar: on their queues and on the
// providers that read them. It checks both.
package queues
