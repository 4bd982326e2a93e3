package io.github.bursar.linkis.placement;

import io.github.bursar.client.Resource;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.manager.am.selector.rule.NodeSelectRule;
import org.apache.linkis.manager.common.entity.node.EMNode;
import org.apache.linkis.manager.common.entity.node.Node;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;

/**
 * Chooses the ECM of a new engine by what Bursar says of the hosts: those that take nothing are left
 * out, those that have room for it come first, the one with the most left at the top.
 *
 * <p>It is the last rule. It is a hint only, the ResourceManager asks Bursar again: if Bursar does
 * not answer within a second the order stays as Linkis has made it.
 */
@Order(Ordered.LOWEST_PRECEDENCE)
final class BursarNodeSelectRule implements NodeSelectRule {
  private static final Logger log = LoggerFactory.getLogger(BursarNodeSelectRule.class);

  private final HostChooser chooser;
  private final Supplier<Resource> size;
  private final Function<ServiceInstance, String> hostOf;
  private final AtomicBoolean away = new AtomicBoolean();

  /**
   * @param size what this thread is about to ask for; null if it creates no engine
   * @param hostOf Bursar's name of an ECM's host
   */
  BursarNodeSelectRule(HostChooser chooser, Supplier<Resource> size, Function<ServiceInstance, String> hostOf) {
    this.chooser = chooser;
    this.size = size;
    this.hostOf = hostOf;
  }

  @Override
  public Node[] ruleFiltering(Node[] nodes) {
    if (nodes == null || nodes.length < 2) {
      return nodes;
    }
    for (Node n : nodes) {
      if (!(n instanceof EMNode)) { // engines that may be used again
        return nodes;
      }
    }
    Resource request = size.get();
    if (request == null) {
      return nodes;
    }
    try {
      List<Node> ordered = chooser.order(new ArrayList<>(Arrays.asList(nodes)), n -> hostOf.apply(n.getServiceInstance()), request);
      away.set(false);
      return ordered.toArray(new Node[0]);
    } catch (RuntimeException e) {
      if (!away.getAndSet(true)) {
        log.warn("ECMs are in Linkis's own order until Bursar answers: {}", e.toString());
      }
      return nodes;
    }
  }
}
