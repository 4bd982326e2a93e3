/**
 * Linkis's manager on Bursar: settings and how the beans come into the manager. See docs/linkis.md.
 */
package io.github.bursar.linkis;
