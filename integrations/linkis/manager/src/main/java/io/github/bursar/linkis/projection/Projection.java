package io.github.bursar.linkis.projection;

import io.github.bursar.client.Allocation;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.linkis.manager.common.entity.node.Node;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One pass over Linkis's engines and Bursar's ledger: ends what has ended, then writes the rows. If
 * Bursar or the database does not answer everything stays as it is, which is said once.
 */
final class Projection implements Runnable {
  private static final Logger log = LoggerFactory.getLogger(Projection.class);

  private final LinkisEngines engines;
  private final LedgerView ledger;
  private final EndedWatcher watcher;
  private final LedgerProjector projector;
  private final Set<String> failing = new HashSet<>();

  Projection(LinkisEngines engines, LedgerView ledger, EndedWatcher watcher, LedgerProjector projector) {
    this.engines = engines;
    this.ledger = ledger;
    this.watcher = watcher;
    this.projector = projector;
  }

  @Override
  public void run() {
    step("engines are not compared with Bursar's allocations", () -> {
      Set<String> tickets = new HashSet<>();
      // before the allocations: an engine has its allocation first
      engines.nodes().forEach(n -> {
        if (n.getTicketId() != null && !n.getTicketId().isEmpty()) {
          tickets.add(n.getTicketId());
        }
      });
      watcher.compare(tickets, ledger.live());
    });
    step("the rows of ECMs and users stay as they are", () -> {
      List<Node> ecms = LinkisEngines.ecms(engines.nodes());
      Map<String, Allocation> live = ledger.live();
      int written = projector.project(ecms, ledger.hosts(), live.values(), ledger.quotas());
      if (written > 0) {
        log.debug("{} rows written", written);
      }
    });
  }

  private interface Step {
    void run() throws Exception;
  }

  private void step(String what, Step step) {
    try {
      step.run();
      if (failing.remove(what)) {
        log.info("no longer so: {}", what);
      }
    } catch (Throwable e) { // an Error too, such as a method that this Linkis does not have
      if (failing.add(what)) {
        log.warn("{} until this is over: {}", what, e.toString());
      } else {
        log.debug(what, e);
      }
    }
  }
}
