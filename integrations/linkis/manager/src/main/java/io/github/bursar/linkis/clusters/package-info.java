/**
 * Rules for tasks across clusters: a request may say that its task could go to one of two clusters,
 * and how full a queue may be for it. They are judged with the figures of Bursar's queues.
 */
package io.github.bursar.linkis.clusters;
