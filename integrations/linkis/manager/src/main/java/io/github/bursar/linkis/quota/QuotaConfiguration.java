package io.github.bursar.linkis.quota;

import io.github.bursar.client.BursarClient;
import io.github.bursar.linkis.BursarAutoConfiguration;
import io.github.bursar.linkis.OnMode;
import io.github.bursar.linkis.Repeating;
import io.github.bursar.linkis.Settings;
import java.util.HashMap;
import java.util.Map;
import javax.sql.DataSource;
import org.apache.linkis.manager.common.conf.RMConfiguration;
import org.springframework.boot.autoconfigure.AutoConfigureAfter;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;

/** Imports Linkis's configuration as quota rules, if linkis.bursar.quota.import says so. */
@Configuration(proxyBeanMethods = false)
@AutoConfigureAfter(BursarAutoConfiguration.class)
@ConditionalOnClass(name = "org.apache.linkis.manager.rm.service.impl.DefaultResourceManager")
@Conditional(OnMode.NotOff.class)
public class QuotaConfiguration {
  /** The imports. */
  @Bean
  public Repeating bursarQuotaImport(Settings settings, BursarClient bursar, DataSource dataSource) {
    Runnable once =
        settings.quotaImport()
            ? new QuotaImport(new ConfigurationTables(dataSource), bursar, builtIn(), settings.cpuMillisPerCore())
            : () -> {};
    return new Repeating("bursar-quota-import", settings.quotaInterval(), once);
  }

  /** What Linkis takes where nothing is configured. */
  private static Map<String, String> builtIn() {
    Map<String, String> values = new HashMap<>();
    values.put(QuotaRules.MEMORY, RMConfiguration.USER_AVAILABLE_MEMORY.getValue().toString());
    values.put(QuotaRules.CORES, RMConfiguration.USER_AVAILABLE_CPU.getValue().toString());
    values.put(QuotaRules.INSTANCES, RMConfiguration.USER_AVAILABLE_INSTANCE.getValue().toString());
    values.put(QuotaRules.YARN_MEMORY, RMConfiguration.USER_AVAILABLE_YARN_INSTANCE_MEMORY.getValue().toString());
    values.put(QuotaRules.YARN_CORES, RMConfiguration.USER_AVAILABLE_YARN_INSTANCE_CPU.getValue().toString());
    return values;
  }
}
