package io.github.bursar.linkis.ecm;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Which processes are the engine of a ticket: the one that its agent has, and the one that this ECM
 * found when it started it; else the JVMs that have the ticket and the port in their command lines,
 * and that are not the engine of another allocation. An engine may write over its command line, so
 * that says nothing as long as more is known.
 */
final class StopTarget {
  private static final Duration PATIENCE = Duration.ofSeconds(5);

  final String ticket;

  /** Null: the agent knows no such ticket, or does not answer. */
  final AgentAllocation allocation;

  /** Those that run; of several JVMs the oldest first. */
  final List<EngineProcess> engine;

  /** Whether its process is, or was, known by more than its command line. */
  private final boolean isCertain;

  private final ProcessTable processes;

  private StopTarget(
      String ticket,
      AgentAllocation allocation,
      List<EngineProcess> engine,
      boolean isCertain,
      ProcessTable processes) {
    this.ticket = ticket;
    this.allocation = allocation;
    this.engine = engine;
    this.isCertain = isCertain;
    this.processes = processes;
  }

  /**
   * The engines of an address: more than one if the agent has several there.
   *
   * @param folder where the engine writes its logs, from which the ticket is read if neither this
   *     ECM nor the agent knows the address; null: it is not known
   * @throws AgentException if the agent is needed, and does not answer
   */
  static List<StopTarget> at(Ecm ecm, String address, String folder) throws AgentException {
    List<StopTarget> found = new ArrayList<>();
    StartedEngine started = ecm.started.get(address);
    if (started != null) {
      found.add(of(ecm, started.ticket, started.jvm, address));
      return found;
    }
    for (AgentAllocation allocation : ecm.agent.at(address, PATIENCE)) {
      found.add(of(ecm, allocation.id, null, address));
    }
    String ticket = ticketOf(folder);
    if (found.isEmpty() && ticket != null) {
      StopTarget target = of(ecm, ticket, null, address);
      boolean isElsewhere = target.allocation != null && target.allocation.isActive();
      if (!isElsewhere) {
        found.add(target);
      }
    }
    return found;
  }

  /** USER/DATE/ENGINE/TICKET/logs, as ECPathUtils makes it. */
  private static String ticketOf(String folder) {
    String[] names = folder == null ? new String[0] : folder.split("/+");
    boolean isOne = names.length >= 5 && names[names.length - 1].equals("logs");
    return isOne ? names[names.length - 2] : null;
  }

  private static StopTarget of(Ecm ecm, String ticket, EngineProcess jvm, String address)
      throws AgentException {
    AgentAllocation allocation = null;
    List<EngineProcess> engine = new ArrayList<>();
    try {
      allocation = ecm.agent.get(ticket, PATIENCE);
      addIfItRuns(engine, new EngineProcess(allocation.pid, allocation.startTime), ecm.processes);
    } catch (AgentException e) {
      boolean isNeeded = jvm == null || !ecm.processes.runs(jvm);
      if (isNeeded && !e.isUnknown()) {
        throw e;
      }
    }
    if (jvm != null && !engine.contains(jvm)) {
      addIfItRuns(engine, jvm, ecm.processes);
    }
    boolean isCertain = jvm != null || (allocation != null && allocation.pid > 0 && allocation.startTime > 0);
    if (engine.isEmpty()) {
      engine.addAll(byCommandLine(ecm, ticket, address.substring(address.lastIndexOf(':') + 1)));
    }
    return new StopTarget(ticket, allocation, engine, isCertain, ecm.processes);
  }

  private static void addIfItRuns(
      List<EngineProcess> engine, EngineProcess process, ProcessTable processes) {
    if (process.pid > 0 && processes.runs(process)) {
      engine.add(process);
    }
  }

  private static List<EngineProcess> byCommandLine(Ecm ecm, String ticket, String port)
      throws AgentException {
    List<EngineProcess> found = ecm.processes.engines(ticket, port);
    if (!found.isEmpty()) {
      Set<EngineProcess> others = new HashSet<>();
      for (AgentAllocation other : ecm.agent.active(a -> !a.id.equals(ticket), PATIENCE)) {
        others.add(new EngineProcess(other.pid, other.startTime));
      }
      found.removeIf(others::contains);
    }
    return found;
  }

  /** Whether the agent can end it. */
  boolean isAgents() {
    return allocation != null && allocation.isActive() && allocation.pid > 0;
  }

  /** Whether it has a reservation, and no process yet: one that comes is not confirmed. */
  boolean isStarting() {
    return engine.isEmpty() && allocation != null && allocation.isReserved();
  }

  /** What the agent knows of its end, after a colon; empty: nothing. */
  String end() {
    return allocation == null || !allocation.isOver() ? "" : ": " + allocation;
  }

  /** Whether a process is the engine, or a part of it. */
  boolean has(long pid) {
    return engine.stream().anyMatch(e -> e.pid == pid || processes.isBelow(pid, e.pid));
  }

  /** Whether it is certain of a process that the engine does not have that it is another one. */
  boolean isAnother(long pid) {
    return isCertain || processes.running(pid) == null;
  }
}
