package io.github.bursar.linkis.ecm;

import java.util.HashSet;
import java.util.Set;
import java.util.function.IntUnaryOperator;

/**
 * The ports of engines that start or run. Linkis looks for a free one and does not keep it, so that
 * engines that start at the same time get the same.
 */
final class StartPorts {
  private static final String PORT = "server.port=";

  /** How often another port is looked for. */
  private static final int ATTEMPTS = 1000;

  private final Set<Integer> taken = new HashSet<>(); // guarded by this

  /**
   * Takes the port that an engine's arguments have, or another one, which it then writes there.
   *
   * @param free a free port of the range that is not below its argument; it may give any if Linkis
   *     has no range
   * @return the port
   * @throws IllegalStateException if there is none
   */
  synchronized int take(String[] arguments, IntUnaryOperator free) {
    int at = 0;
    while (at < arguments.length && !arguments[at].startsWith(PORT)) {
      at++;
    }
    if (at == arguments.length) {
      throw new IllegalStateException("an engine's arguments have no " + PORT);
    }
    int port = Integer.parseInt(arguments[at].substring(PORT.length()));
    for (int i = 0; taken.contains(port); i++) {
      if (i == ATTEMPTS) {
        throw new IllegalStateException("no port is free for one more engine");
      }
      port = free.applyAsInt(port + 1);
    }
    arguments[at] = PORT + port;
    taken.add(port);
    return port;
  }

  synchronized void giveBack(int port) {
    taken.remove(port);
  }
}
