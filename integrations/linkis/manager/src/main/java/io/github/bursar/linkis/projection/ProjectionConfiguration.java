package io.github.bursar.linkis.projection;

import io.github.bursar.client.BursarClient;
import io.github.bursar.linkis.BursarAutoConfiguration;
import io.github.bursar.linkis.OnMode;
import io.github.bursar.linkis.Repeating;
import io.github.bursar.linkis.Settings;
import io.github.bursar.linkis.mapping.LabelMapper;
import java.time.Duration;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.linkis.manager.am.service.ECResourceInfoService;
import org.apache.linkis.manager.am.service.EMEngineService;
import org.apache.linkis.manager.am.service.engine.EngineStopService;
import org.apache.linkis.manager.label.service.NodeLabelService;
import org.apache.linkis.manager.persistence.LabelManagerPersistence;
import org.apache.linkis.manager.persistence.LockManagerPersistence;
import org.apache.linkis.manager.persistence.NodeManagerPersistence;
import org.apache.linkis.manager.persistence.NodeMetricManagerPersistence;
import org.apache.linkis.manager.persistence.ResourceLabelPersistence;
import org.apache.linkis.manager.persistence.ResourceManagerPersistence;
import org.springframework.boot.autoconfigure.AutoConfigureAfter;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;

/**
 * Keeps Linkis's rows in step with Bursar's ledger while Bursar decides, and hands them over when it
 * no longer does.
 */
@Configuration(proxyBeanMethods = false)
@AutoConfigureAfter(BursarAutoConfiguration.class)
@ConditionalOnClass(name = "org.apache.linkis.manager.rm.service.impl.DefaultResourceManager")
@Conditional(OnMode.NotOff.class)
public class ProjectionConfiguration {
  /** Threads that end engines: one waits for an ECM for as long as that needs to stop a process. */
  private static final int WORKERS = 8;
  /** When rows that are not handed over are tried again: a killed manager can leave a lock. */
  private static final Duration AGAIN = Duration.ofSeconds(5);

  /** What ends engines in Linkis. */
  @Bean(destroyMethod = "shutdownNow")
  @Conditional(OnMode.Enforce.class)
  public ThreadPoolExecutor bursarEngineEnds() {
    ThreadPoolExecutor workers = new ThreadPoolExecutor(WORKERS, WORKERS, 60, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), r -> {
      Thread t = new Thread(r, "bursar-engine-ends");
      t.setDaemon(true);
      return t;
    });
    workers.allowCoreThreadTimeOut(true);
    return workers;
  }

  /** In shadow mode stock counts on with the rows: a manager that was killed has not handed them over. */
  @Bean
  @Conditional(OnMode.Shadow.class)
  public Repeating bursarHandOver(
      LabelManagerPersistence labels,
      ResourceManagerPersistence resources,
      ResourceLabelPersistence labelResources,
      LockManagerPersistence locks) {
    return new Repeating("bursar-hand-over", AGAIN, new HandOver(new LinkisRows(labels, resources, labelResources, locks)));
  }

  /** The passes. */
  @Bean
  @Conditional(OnMode.Enforce.class)
  public Repeating bursarProjection(
      Settings settings,
      BursarClient bursar,
      LabelMapper labelMapper,
      ThreadPoolExecutor bursarEngineEnds,
      NodeManagerPersistence nodes,
      NodeMetricManagerPersistence metrics,
      NodeLabelService nodeLabels,
      EngineStopService stop,
      EMEngineService ecms,
      ECResourceInfoService records,
      LabelManagerPersistence labels,
      ResourceManagerPersistence resources,
      ResourceLabelPersistence labelResources,
      LockManagerPersistence locks) {
    LinkisRows rows = new LinkisRows(labels, resources, labelResources, locks);
    LinkisEngines engines = new LinkisEngines(nodes, metrics, nodeLabels, stop, ecms, records, rows);
    Projection projection =
        new Projection(
            engines,
            new LedgerView(bursar),
            new EndedWatcher(engines, bursar, bursarEngineEnds),
            new LedgerProjector(rows, ecm -> labelMapper.host(ecm.getInstance()), settings.cpuMillisPerCore()));
    return new Repeating("bursar-projection", settings.projectorInterval(), projection, new HandOver(rows));
  }
}
