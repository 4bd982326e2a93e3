/**
 * What Linkis's tables say of what Bursar decided, and the other way round: the rows of ECMs and of
 * users are kept as Bursar has it, and an engine whose allocation has ended is ended in Linkis.
 */
package io.github.bursar.linkis.projection;
