package io.github.bursar.linkis.ecm;

import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.function.IntUnaryOperator;

/**
 * The ports of engines that start or run, and of those that ran. Linkis looks for a free one and
 * does not keep it, so that engines that start at the same time get the same. It names engines by
 * host and port, so it refuses one whose port is that of an engine which has ended and still has its
 * row: a port is used again last, first the one whose engine ended first.
 */
final class StartPorts {
  private static final String PORT = "server.port=";

  /** How often another port is looked for. */
  private static final int ATTEMPTS = 1000;

  private final Set<Integer> taken = new HashSet<>(); // guarded by this
  private final Set<Integer> ended = new LinkedHashSet<>(); // the first one first; guarded by this

  /**
   * Takes the port that an engine's arguments have, or another one, which it then writes there.
   *
   * @param free a free port of the range that is not below its argument, 0 if there is none; it may
   *     give any if Linkis has no range
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
    int port = unused(Integer.parseInt(arguments[at].substring(PORT.length())), free);
    if (port == 0) {
      port = usedAgain(free);
    }
    arguments[at] = PORT + port;
    taken.add(port);
    return port;
  }

  private int unused(int first, IntUnaryOperator free) {
    int port = first;
    for (int i = 0; i < ATTEMPTS && port != 0; i++) {
      if (!isKnown(port)) {
        return port;
      }
      while (isKnown(port)) {
        port++;
      }
      port = free.applyAsInt(port);
    }
    return 0;
  }

  private boolean isKnown(int port) {
    return taken.contains(port) || ended.contains(port);
  }

  private int usedAgain(IntUnaryOperator free) {
    for (Iterator<Integer> ports = ended.iterator(); ports.hasNext(); ) {
      int port = ports.next();
      if (!taken.contains(port) && free.applyAsInt(port) == port) {
        ports.remove();
        return port;
      }
    }
    throw new IllegalStateException("no port is free for one more engine");
  }

  synchronized void giveBack(int port) {
    if (taken.remove(port)) {
      ended.add(port);
    }
  }
}
