/** Which ECM an engine is to be created on: Linkis chooses it before it knows how much is asked for. */
package io.github.bursar.linkis.placement;
