/**
 * Linkis's configuration of what users may have, kept in step as quota rules of Bursar. Linkis's
 * tables stay the source; the rules say so, and nobody else can change them.
 */
package io.github.bursar.linkis.quota;
