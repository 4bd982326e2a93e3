/**
 * What Linkis says in Bursar's words, and the other way round: labels and hosts, resources, and
 * refusals. Nothing here calls anybody.
 */
package io.github.bursar.linkis.mapping;
