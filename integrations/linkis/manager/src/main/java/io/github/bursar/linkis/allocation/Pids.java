package io.github.bursar.linkis.allocation;

import org.apache.linkis.manager.common.entity.node.Node;

/** Pids that Linkis knows. */
final class Pids {
  private Pids() {}

  /**
   * The pid on the engine's host that the engine told; 0: none, or its identifier is an
   * application's.
   */
  static int of(Node node) {
    String identifier = node.getIdentifier();
    return identifier != null && identifier.matches("[1-9][0-9]{0,8}") ? Integer.parseInt(identifier) : 0;
  }
}
