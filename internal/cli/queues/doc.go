// Package queues has the commands on clusters beside Bursar's: their queues, the providers that read them,
// and checks of both.
package queues
