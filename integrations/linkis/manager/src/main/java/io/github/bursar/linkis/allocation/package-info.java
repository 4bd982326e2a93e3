/**
 * Linkis's ResourceManager on Bursar: the decision is Bursar's, and the rows of each engine that
 * the
 * rest of Linkis reads are kept. A ticket's id is the id of the allocation, so there is no table of
 * our own.
 */
package io.github.bursar.linkis.allocation;
