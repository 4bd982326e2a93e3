package io.github.bursar.linkis.ecm;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import org.apache.linkis.common.exception.ErrorException;
import org.apache.linkis.common.exception.LinkisRetryException;

/** What the services of one ECM share. */
final class Ecm {
  /** Of Linkis's codes those of the ECM begin with 11; nobody else uses this one. */
  static final int ERROR_CODE = 11190;

  /** What is right if the agent denies something to this ECM. */
  static final String WANT_TRUST =
      "want the ECM's account among trustedUsers of the agent on this host";

  /** A ticket that LinkisManager has made without Bursar. */
  private static final Pattern OF_STOCK =
      Pattern.compile("\\p{XDigit}{8}(-\\p{XDigit}{4}){3}-\\p{XDigit}{12}");

  final EcmSettings settings;
  final Agent agent;
  final ProcessTable processes = new ProcessTable();
  final EndedEngines ended;
  final StartPorts ports = new StartPorts();

  /** The engines that were started here and run, by host:port. */
  final Map<String, StartedEngine> started = new ConcurrentHashMap<>();

  Ecm(EcmSettings settings) {
    this.settings = settings;
    this.agent = new Agent(settings.socket);
    this.ended = new EndedEngines(agent, processes);
  }

  /**
   * Fails unless there is a reservation of this host for a ticket. Only then an engine may be
   * started.
   */
  void requireReservation(String ticket) {
    if (OF_STOCK.matcher(ticket).matches()) {
      throw new ErrorException(
          ERROR_CODE,
          "ticket "
              + ticket
              + ": a UUID is a ticket of stock Linkis: want "
              + EcmSettings.MODE
              + "=enforce at LinkisManager, or another mode at this ECM");
    }
    try {
      AgentAllocation allocation = agent.get(ticket, Duration.ofSeconds(15));
      if (!allocation.isReserved()) {
        throw new ErrorException(
            ERROR_CODE,
            "ticket " + ticket + ": " + allocation + ": want a reservation of this host in Bursar");
      }
    } catch (AgentException e) {
      throw refused("ticket " + ticket, e);
    }
  }

  /**
   * Whether an engine that the agent has refused must not run: its allocation is over, or there is
   * none. All else says nothing about the engine: a reason that concerns its pid, an agent that is
   * away, or an allocation that LinkisManager has confirmed meanwhile.
   */
  static boolean mustNotRun(Agent agent, String ticket, AgentException refused, Duration patience) {
    if (refused.isRetriable()) {
      return false;
    }
    try {
      return agent.get(ticket, patience).isOver();
    } catch (AgentException e) {
      return e.isUnknown();
    }
  }

  /** What Linkis is told if the agent refuses an engine or does not answer. */
  static RuntimeException refused(String what, AgentException e) {
    if (e.isRetriable()) {
      return new LinkisRetryException(ERROR_CODE, what + ": " + e.getMessage());
    }
    if (e.code.equals("permission_denied")) {
      return new ErrorException(
          ERROR_CODE,
          what
              + ": "
              + e.getMessage()
              + ": "
              + WANT_TRUST);
    }
    if (e.isUnknown()) {
      return new ErrorException(
          ERROR_CODE,
          what
              + ": "
              + e.getMessage()
              + ": want a ticket of Bursar for this host: "
              + EcmSettings.MODE
              + "=enforce at LinkisManager, and the agent's host in its linkis.bursar.host.map");
    }
    return new ErrorException(ERROR_CODE, what + ": " + e.getMessage());
  }
}
