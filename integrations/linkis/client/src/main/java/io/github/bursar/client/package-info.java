/**
 * A client of Bursar: typed calls over HTTP and JSON to one of several coordinators, or to a host's
 * agent. {@link io.github.bursar.client.BursarClient} is where to begin. Everything here may be
 * used by many threads at once; values do not change.
 */
package io.github.bursar.client;
